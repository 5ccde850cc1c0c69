"""What both middlewares decide by: the routes, the mark, the secrets. Judges what a request presents; does no IO itself."""

from collections.abc import Iterable, Sequence
from typing import Final

from tenure.errors import ConfigError
from tenure.sinks.base import Verify
from tenure.sinks.http.header import Malformed, Presented, read
from tenure.sinks.http.jwt_claims import is_jwt
from tenure.sinks.http.jwt_signing import JwtKey, JwtKeys
from tenure.sinks.http.refusing import Refusal
from tenure.sinks.http.signing import SKEW_S, Keys, Secret
from tenure.sinks.http.sink import SEAL_PATH
from tenure.sinks.marks import AsyncMark, Mark
from tenure.sinks.refusals import Refusals
from tenure.web.routes import Paths, Route, TwoRoutes, route_of
from tenure.web.underway import Underway

SEAL_WITHIN_S: Final = 10.0


class Guard:
    """How a service is fenced: which routes, by which fences, and where the highest token is kept.

    ``routes``         which paths and methods are guarded, by which fence; the first that fits counts
    ``mark``           where the highest token is kept: as durable as what the service writes, or a restart lets a stale
                       leader in until the next one has sealed
    ``secrets``        if they are given, a header counts only if one of them has signed it; several during a rotation.
                       Whoever holds any of them speaks for every fence of this Guard; otherwise one Guard each, or ``verify``
    ``keys``           likewise for headers that are JSON web tokens; with both, either counts. A ``JwtKey`` with a ``fence``
                       speaks for that one alone
    ``verify``         asked about a token that is higher than any seen, before it raises the mark
    ``seal_path``      where a new leader seals by a POST
    ``seal_within_s``  how long that waits for older requests under way in this process

    ``refused`` counts what the mark has refused. Does not promise that check and write are one step: see ``tenure.web``.
    """

    def __init__(  # noqa: PLR0913  (options, each with a default)
        self,
        routes: Iterable[Route],
        mark: Mark | AsyncMark,
        *,
        secrets: Iterable[str | bytes | Secret] | None = None,
        keys: Iterable[JwtKey] | None = None,
        verify: Verify | None = None,
        seal_path: str = SEAL_PATH,
        seal_within_s: float = SEAL_WITHIN_S,
        skew_s: int = SKEW_S,
    ) -> None:
        self.routes: Sequence[Route] = tuple(routes)
        if not self.routes:
            raise ConfigError("routes", "none", "must name at least one, or nothing is guarded")
        if isinstance(secrets, str | bytes):
            raise ConfigError("secrets", "(hidden)", "must be a list of secrets")
        self.mark, self.verify = mark, verify
        self.seal_path, self.seal_within_s, self._skew_s = seal_path, seal_within_s, skew_s
        self._keys, self._jwt_keys = Keys(secrets or ()), JwtKeys(keys or ())
        # An empty list is a setting that was forgotten, and would let everybody in.
        for what, given, known in (("secrets", secrets, self._keys), ("keys", keys, self._jwt_keys)):
            if given is not None and not known:
                raise ConfigError(what, "none", "must name at least one, or nobody has to sign; leave it out for that")
        self.refused, self.underway = Refusals(type(self).__name__), Underway()

    def is_seal(self, method: str, paths: Paths) -> bool:
        """Whether a request is a leader's seal. ``paths`` is all that its path may be called (see ``paths_of``)."""
        return self.seal_path in paths.came and method.upper() == "POST"

    def route_of(self, method: str | None, paths: Paths) -> Route | Refusal | None:
        """Return what guards a request, or None if it may pass without a token; without a method, by the path alone."""
        try:
            return route_of(self.routes, method, paths)
        except TwoRoutes:
            return Refusal("malformed", "its path can be read as that of two routes")

    def judge(self, values: Sequence[str], route: Route | None) -> Presented | Refusal:
        """Return what the header of a request presents, or why it is worth nothing; ``route`` is None for a seal."""
        if not values:
            return Refusal("missing")
        if len(values) > 1:
            return Refusal("malformed", "it came more than once")
        # The signature first: who has none does not learn which fences there are.
        is_web_token = is_jwt(values[0])
        presented = self._jwt_keys.judge(values[0], self._skew_s) if is_web_token else self._plain(values[0])
        if isinstance(presented, Refusal):
            return presented
        known = self.routes if route is None else (route,)
        if not any(one.accepts(presented.fence) for one in known):
            return Refusal("other-fence", token=presented.token)
        return presented

    def _plain(self, value: str) -> Presented | Refusal:
        try:
            presented = read(value)
        except Malformed as error:
            return Refusal("malformed", str(error))
        # Where only web tokens are signed here, no secret is known, and this counts for nothing.
        if self._keys or self._jwt_keys:
            fault = self._keys.fault(presented, self._skew_s)
            if fault is not None:
                return Refusal(fault)
        return presented


def unfit(error: ConfigError) -> Refusal:
    """Return what it means that a mark cannot keep a fence of such a name. Raises the error if it says anything else."""
    if error.setting != "fence":  # Such as a mark that was closed: that is no fault of whoever sent the request.
        raise error
    return Refusal("malformed", f"the fence {error.rule}")
