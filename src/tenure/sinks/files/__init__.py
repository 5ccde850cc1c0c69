"""Fenced writes to files on a local disk: one fence for a whole folder, whatever lies below it.

``FileSink``  writes and deletes files under a tenure, and seals
``FileMark``  the fences of a folder alone, for whoever has something else than files to fence
"""

from tenure.sinks.files.mark import FileMark
from tenure.sinks.files.sink import BlockingFiles, BoundFiles, FileSink

__all__ = ["BlockingFiles", "BoundFiles", "FileMark", "FileSink"]
