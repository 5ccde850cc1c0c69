"""What an election or a document may be called, so that every engine can have it."""

from typing import Final

from tenure.errors import ConfigError

NAME_BYTES_MAX: Final = 255  # What the narrowest engine takes as one part of a path.


def check_name(name: object, setting: str = "election") -> str:
    """Return ``name`` if every engine can have an election, or whatever ``setting`` says, of that name."""
    if not isinstance(name, str) or not name:
        raise ConfigError(setting, repr(name), "must be a name of at least one character")
    if len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise ConfigError(setting, f"{name[:20]}…", f"must have at most {NAME_BYTES_MAX} bytes")
    if not name.isprintable() or name != name.strip():
        raise ConfigError(setting, repr(name), "must be printable, without space at its ends")
    if any(part in {"", ".", ".."} for part in name.split("/")):
        raise ConfigError(setting, repr(name), "must have no empty part, '.' or '..' between its slashes")
    return name
