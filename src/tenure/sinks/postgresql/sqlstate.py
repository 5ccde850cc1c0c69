"""What an SQLSTATE says of who has spoken."""

from typing import Final

# Of a connection that broke: said by a driver, or by a pooler that has lost its server, as PgBouncer (08P01) and PgCat (58000) do. The
# server may have committed before that.
_LOST: Final = ("08", "58000")


def by_server(code: str | None) -> str:
    """Return the code, or none if it was not the server that has said so."""
    return "" if code is None or code.startswith(_LOST) else code
