"""The data of one write, put before it counts, and removed again if it never will."""

from collections.abc import Callable, Iterable, Mapping

from tenure.sinks.s3.bucket import Bucket
from tenure.sinks.s3.manifest import Manifest

Change = Callable[[bytes | None], bytes | None]
"""Makes new content of what is there (None: no such object); returns None to delete it."""

Content = bytes | Change | None
"""New content; a function that makes it; or None, which deletes the object."""


class Draft:
    """What has been put for a write that is tried perhaps several times."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._put: dict[str, str | None] = {}

    def put(self, contents: Mapping[str, Content], manifest: Manifest) -> dict[str, str | None]:
        """Put the data; returns the key for each name, None for what is to be deleted.

        What does not depend on what is there is put once, however often the write is tried.
        """
        for name, content in contents.items():
            if callable(content):
                self.remove([self._put.pop(name, None)])
                key = manifest.objects.get(name)
                made = content(None if key is None else self._bucket.content(key))
                self._put[name] = None if made is None else self._bucket.add(made)
            elif name not in self._put:
                self._put[name] = None if content is None else self._bucket.add(content)
        return self._put

    def drop(self) -> None:
        """Remove the data: the write will never count."""
        self.remove(self._put.values())

    def remove(self, keys: Iterable[str | None]) -> None:
        """Remove data that nothing refers to."""
        for key in keys:
            if key is not None:
                self._bucket.remove(key)
