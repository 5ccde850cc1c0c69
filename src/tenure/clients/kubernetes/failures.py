"""Which of three outcomes a request had that was not carried out as asked, and one line that says what to do about it.

| status | outcome, and why |
|---|---|
| 400, 405, 406, 413, 415, 422 | Refused: the request is checked before anything is written |
| 401 | Refused: decided at the door, so it is repeated once if we have something newer to say who we are |
| 403 | Refused: decided before anything is written |
| 404, 409, 410 | NotThere, Conflict, Gone: the comparison is a part of the write |
| 429 | Refused: turned away at the door; repeated after ``Retry-After`` while the request has time |
| 3xx, other 4xx | Refused: whoever says so has passed nothing on |
| 408, 5xx | **OutcomeUnknown**: etcd, or a proxy on the way, may have carried it out and been late to say so |
"""

import json
from typing import Any, Final

from tenure.clients.http import Answer
from tenure.errors import OutcomeUnknown, Refused, StoreError

UNAUTHORISED, FORBIDDEN, NOT_FOUND, TIMED_OUT, CONFLICT, GONE, BUSY = 401, 403, 404, 408, 409, 410, 429
_SERVER_ERROR: Final = 500
_SHOWN_MAX: Final = 300


class NotThere(Refused):
    """Definite: there is no such object."""


class Conflict(Refused):
    """Definite: the object is not as it was when we looked, or is there already."""


class Gone(Refused):
    """Definite: the API server no longer knows what happened since then."""


_KINDS: Final[dict[int, type[Refused]]] = {NOT_FOUND: NotThere, CONFLICT: Conflict, GONE: Gone}


def failure(answer: Answer, address: str, operation: str) -> StoreError:
    """Return the error for an answer that is no success."""
    said = message_of(answer)
    if said is None:
        shown = answer.text[:_SHOWN_MAX]
        detail = f"no Kubernetes API server answered, but something that said {answer.status}: {shown or 'nothing'}"
    else:
        detail = said + _advice(answer.status, said)
    if answer.status >= _SERVER_ERROR or answer.status == TIMED_OUT:
        return OutcomeUnknown(address, operation, detail)
    kind = _KINDS.get(answer.status, Refused) if said is not None else Refused
    return kind(address, operation, detail)


def message_of(answer: Answer) -> str | None:
    """Return what the API server says in words. None: that is no API server."""
    try:
        status: Any = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        return None
    return str(status.get("message") or status.get("reason") or answer.status)[:_SHOWN_MAX]


def _advice(status: int, said: str) -> str:
    if status == UNAUTHORISED:
        return "; it does not know who asks, since what says so is missing, wrong or expired: log in again, or see the user in the kubeconfig"
    if status == FORBIDDEN:
        return "; apply what tenure doctor --rbac prints, or ask for these rights"
    if status == NOT_FOUND and said.startswith("namespaces "):
        return "; create the namespace, or name another one in the URL"
    if status == BUSY:
        return "; it has too much to do: ask less often, or give it a larger ttl"
    return ""
