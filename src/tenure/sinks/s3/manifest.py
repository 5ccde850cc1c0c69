"""The one object of a prefix that is compared and swapped: its fences, and which data each name stands for. No IO.

Why not the token in each object's metadata, with ``If-Match`` on its ETag? Because an ETag is a digest of the content alone.
A seal that rewrites an object with a higher token leaves its ETag as it was, and so does a successor that writes the same content
again; a stale leader that had read the ETag before then passes. What is swapped must never look the same twice, so every
manifest names its write by a random number. And S3 has no transaction over objects: with one manifest for a prefix, a write of
several objects, and a seal of all of them, is one step.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from tenure.errors import UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks.fence import Fence
from tenure.sinks.repairing import Repair, moved, repairs_in

MANIFEST_MAX_BYTES: Final = 4 * 2**20
_FORMAT: Final = 1
_WRITES_KEPT: Final = 64  # By these a writer whose answer was lost finds out that it had been heard.


class Rubbish(Exception):
    """What the manifest says cannot be. The text tells what."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a prefix remembers. ``objects`` has, for each name, the key of its data."""

    highest: Mapping[str, int] = field(default_factory=dict)
    objects: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()

    def admit(self, fence: str, token: Token, *, known_only: bool) -> "Manifest":
        """Return the manifest after ``token`` has come: this very one if the fence stands there already.

        Raises StaleToken; and with ``known_only`` UnverifiedToken for a token that would raise the fence.
        """
        highest = self.highest.get(fence, 0)
        Fence(highest).admit(token)
        if token == highest:
            return self
        if known_only:
            raise UnverifiedToken(token, highest)
        return replace(self, highest={**self.highest, fence: token})

    def repaired(self, repair: Repair) -> "Manifest":
        """Return the manifest with a fence lowered. Raises ConfigError if the fence does not stand where it was said."""
        highest = self.highest.get(repair.fence, 0)
        if highest != repair.was:
            raise moved(repair, highest)
        return replace(self, highest={**self.highest, repair.fence: repair.now}, repairs=(*self.repairs, repair))

    def changed(self, changes: Mapping[str, str | None]) -> "Manifest":
        """Return the manifest with other data for some names; None: without that name."""
        objects = {**self.objects, **changes}
        return replace(self, objects={name: key for name, key in objects.items() if key is not None})

    def shows_all_since(self, earlier: "Manifest") -> bool:
        """Whether each write that was made after ``earlier`` is still among those that are kept."""
        if earlier.writes:
            return earlier.writes[-1] in self.writes
        return len(self.writes) < _WRITES_KEPT

    def signed(self) -> "Manifest":
        """Return the manifest as a write that nobody has made before."""
        return replace(self, writes=(*self.writes, secrets.token_hex(12))[-_WRITES_KEPT:])


def written(manifest: Manifest) -> bytes:
    """Return the manifest as the object has it."""
    page: dict[str, Any] = {
        "tenure": _FORMAT,
        "highest": dict(manifest.highest),
        "objects": dict(manifest.objects),
        "writes": manifest.writes,
    }
    if manifest.repairs:
        page["repairs"] = [asdict(repair) for repair in manifest.repairs]
    return json.dumps(page, indent=1).encode()


def read(text: bytes) -> Manifest:
    """Return the manifest that an object has. Raises Rubbish."""
    if len(text) > MANIFEST_MAX_BYTES:
        raise Rubbish(f"it has more than {MANIFEST_MAX_BYTES} bytes")
    try:
        page: Any = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Rubbish(f"it is not JSON: {error}") from error
    match page:
        case {"tenure": 1, "highest": dict(highest), "objects": dict(objects), "writes": list(writes)}:
            pass
        case _:
            raise Rubbish('it lacks "tenure": 1, "highest", "objects" or "writes"')
    for fence, token in highest.items():
        if type(token) is not int or not 0 <= token <= TOKEN_MAX:
            raise Rubbish(f"the fence {fence} stands at {str(token)[:40]!r}, which is no token")
    if not all(isinstance(text, str) for text in (*objects.values(), *writes)):
        raise Rubbish("it has something else than texts for objects or writes")
    try:
        repairs = repairs_in(page.get("repairs", []))
    except ValueError as error:
        raise Rubbish(f'its "repairs" {error}') from error
    return Manifest(highest, objects, tuple(writes), repairs)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse what says something twice: which of both is meant, nobody knows."""
    page = dict(pairs)
    if len(page) != len(pairs):
        raise ValueError("a name stands in it twice")
    return page
