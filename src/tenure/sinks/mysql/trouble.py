"""What errors of asyncmy and PyMySQL say, which are made alike."""

import struct
from typing import Final

from tenure.sinks.sql.talk import Trouble

# The client's own: it could not connect, or lost the server.
_LOST: Final = range(2000, 3000)
CLOSED: Final = "the connection is closed"
BUSY: Final = "another operation is in progress on this connection"
# What both drivers raise while they connect to whoever does not speak their protocol, or breaks off in the middle of it.
ODD: Final = (IndexError, AssertionError, UnicodeError, struct.error)


def odd_answer(error: Exception) -> Trouble:
    """Return what is to be said of a server that is none."""
    words = str(error) or type(error).__name__
    return Trouble("", f"it did not answer as a MySQL or MariaDB does ({words}): is it one?", was_sent=False)


def was_said(error: BaseException) -> bool:
    """Say whether it is the server's word, and thereby the whole of its answer. Not by its number, which anybody can give to an error."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_code.co_name.endswith("raise_mysql_exception")


def left_over(error: BaseException) -> Trouble:
    """Return what came out when the results were read that a caller had left unread: it is the answer to what the caller had asked."""
    trouble = trouble_from(error)
    return Trouble(trouble.code, trouble.text, was_sent=bool(trouble.code), is_callers=True)


def trouble_from(error: BaseException, *, was_sent: bool = True) -> Trouble:
    """Return it with the server's number, or none if the server has said nothing."""
    number, text = 0, str(error)
    match error.args:
        case (int(number), str(text)):
            pass
        case _:
            number = 0
    said = not isinstance(error, OSError) and number > 0 and number not in _LOST
    return Trouble(str(number) if said else "", text or "no answer in time", was_sent=was_sent)
