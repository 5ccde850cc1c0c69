"""An answer that is bounded whatever it says of itself: http.client takes -1 for the size of a chunk, and reads to the end."""

import http.client
import io
from socket import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BODY_MAX_BYTES: Final = 64 * 2**20
_WIRE_MAX_BYTES: Final = BODY_MAX_BYTES + 2**20  # with its headers, and with the sizes of its chunks
TOO_LARGE: Final = f"the answer has more than {BODY_MAX_BYTES} bytes"


class CappedAnswer(http.client.HTTPResponse):
    """An answer of which no more bytes are taken from the wire than that. Raises HTTPException for more."""

    def __init__(self, sock: socket, debuglevel: int = 0, method: str | None = None, url: str | None = None) -> None:
        super().__init__(sock, debuglevel, method, url)
        assert isinstance(self.fp, io.BufferedReader), "nothing has been read of it"
        self.fp = io.BufferedReader(_Capped(self.fp.detach()))


class _Capped(io.RawIOBase):
    def __init__(self, wire: io.RawIOBase) -> None:
        self._wire, self._left = wire, _WIRE_MAX_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        count = self._wire.readinto(buffer)
        self._left -= count or 0
        if self._left < 0:
            raise http.client.HTTPException(TOO_LARGE)
        return count

    def close(self) -> None:
        try:
            self._wire.close()
        finally:
            super().close()
