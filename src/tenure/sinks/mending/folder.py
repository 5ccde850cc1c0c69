"""The fences of a folder, which ``FileSink`` and ``FileMark`` keep in its record."""

from tenure.errors import ConfigError
from tenure.sinks.files.folder import WAIT_S, Folder
from tenure.sinks.repairing import Fences, Repair

NO_FENCES = "must be a folder or a database that has fences"


class FolderFences:
    """See ``Mendable``."""

    def __init__(self, path: str) -> None:
        self._folder = Folder(path, f"folder {path}", WAIT_S)
        if not self._folder.has_fences:
            raise ConfigError("target", path, NO_FENCES)

    def look(self) -> Fences:
        record = self._folder.record("read")
        return Fences(dict(record.highest), record.repairs)

    def lower(self, repair: Repair) -> None:
        self._folder.change(lambda record: record.repaired(repair), "repair")
