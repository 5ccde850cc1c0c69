"""Writing a picture of the laboratory to a file, or saying in one line why not; before anything is played for it, if possible."""

from pathlib import Path

from tenure.errors import ConfigError


def check_folder(option: str, path: Path) -> None:
    """Refuse a file that cannot be there: what is drawn may take a minute to measure."""
    if path.is_dir():
        raise ConfigError(option, path, "cannot be written: it is a folder")
    if not path.parent.is_dir():
        raise ConfigError(option, path, f"cannot be written: there is no folder {path.parent}")


def write(option: str, path: Path, content: bytes) -> None:
    """Write it."""
    try:
        path.write_bytes(content)
    except (OSError, ValueError) as error:
        raise ConfigError(option, path, f"cannot be written: {getattr(error, 'strerror', None) or error}") from None
