"""The wire format of protocol buffers, as much of it as etcd's messages use. Rubbish is a ``ValueError``, nothing else."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN_BIT, _WRAP = 1 << 63, 1 << 64


def varint(number: int) -> bytes:
    """Return an int64 or uint64 as it goes over the wire; a negative one takes ten bytes."""
    if 0 <= number < 128:  # noqa: PLR2004  (what fits into seven bits)
        return bytes((number,))
    number %= _WRAP
    written = bytearray()
    while number > 127:  # noqa: PLR2004
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def put_int(field: int, number: int) -> bytes:
    """Return a field with a number, or nothing for zero, which is what an absent field means."""
    return varint(field << 3 | _VARINT) + varint(number) if number else b""


def put_bytes(field: int, content: bytes) -> bytes:
    """Return a field with bytes or a message, or nothing if there are none."""
    return put_message(field, content) if content else b""


def put_message(field: int, content: bytes) -> bytes:
    """Return a field with a message that counts even if it is empty: one of a list, or of a choice."""
    return varint(field << 3 | _BYTES) + varint(len(content)) + content


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at ``at``, as a uint64, and where it ends."""
    try:
        byte = data[at]
        if byte < 128:  # noqa: PLR2004
            return byte, at + 1
        number, shift = byte & 127, 7
        while shift < 70:  # noqa: PLR2004  (ten bytes carry 64 bits)
            at += 1
            byte = data[at]
            number |= (byte & 127) << shift
            if byte < 128:  # noqa: PLR2004
                return number % _WRAP, at + 1
            shift += 7
    except IndexError:
        raise ValueError("the message ends within a number") from None
    raise ValueError("a number is longer than 64 bits")


class Fields:
    """A message that was read: each field by its number, whatever was not sent as zero or empty.

    Unknown fields are passed over, because a newer server may send them, and so are numbers of fixed width.
    """

    __slots__ = ("_found",)

    def __init__(self, data: bytes) -> None:
        self._found: dict[int, list[int | bytes]] = {}
        at, end = 0, len(data)
        value: int | bytes
        while at < end:
            tag = data[at]
            if tag < 128:  # noqa: PLR2004  (as nearly always; reading takes a third less time so)
                at += 1
            else:
                tag, at = read_varint(data, at)
            kind = tag & 7
            if kind == _VARINT:
                value, at = read_varint(data, at)
            elif kind == _BYTES:
                length = data[at] if at < end else 0
                if length < 128:  # noqa: PLR2004  (likewise)
                    at += 1
                else:
                    length, at = read_varint(data, at)
                value, at = data[at : at + length], at + length
            elif kind in (_FIXED64, _FIXED32):
                at += 8 if kind == _FIXED64 else 4
                continue
            else:
                raise ValueError(f"field {tag >> 3} has the unknown wire type {kind}")
            field = tag >> 3
            if field in self._found:
                self._found[field].append(value)
            else:
                self._found[field] = [value]
        if at != end:
            raise ValueError("the message ends within a field")

    def has(self, field: int) -> bool:
        """Say whether the field was sent."""
        return field in self._found

    def unsigned(self, field: int) -> int:
        """Return a uint64 or a truth value. As for every field that stands alone, the last one sent counts."""
        values = self._found.get(field)
        if values is None:
            return 0
        value = values[-1]
        if not isinstance(value, int):
            raise ValueError(f"bytes stand in field {field}, where a number belongs")  # noqa: TRY004  (it is a value)
        return value

    def signed(self, field: int) -> int:
        """Return an int64."""
        value = self.unsigned(field)
        return value - _WRAP if value & _SIGN_BIT else value

    def all_bytes(self, field: int) -> list[bytes]:
        """Return each of a list of byte strings or messages."""
        values = []
        for value in self._found.get(field, ()):
            if isinstance(value, int):
                raise ValueError(f"a number stands in field {field}, where bytes belong")  # noqa: TRY004
            values.append(value)
        return values

    def bytes(self, field: int) -> bytes:
        """Return a byte string or a message."""
        values = self.all_bytes(field)
        return values[-1] if values else b""

    def all_texts(self, field: int) -> list[str]:
        """Return each of a list of texts. What is not UTF-8 is shown as well as it goes: texts are for people."""
        return [value.decode("utf-8", "replace") for value in self.all_bytes(field)]

    def text(self, field: int) -> str:
        """Return a text."""
        return self.bytes(field).decode("utf-8", "replace")
