"""How the harness talks to engines: one request to a node that speaks HTTP, and one run of an engine's own command line."""

import http.client
import os
import ssl
import subprocess
from collections.abc import Mapping, Sequence

from tenure.testing.engines.cluster import EngineFailed, Node

_TOOL_S = 60
_ASK_S = 2  # A node that does not answer at once is not ready, or has nobody to ask; the next look comes soon.


def ask(  # noqa: PLR0913  (a request has so many parts)
    node: Node,
    context: ssl.SSLContext | None,
    path: str,
    *,
    method: str = "GET",
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = _ASK_S,
) -> tuple[int, str]:
    """The status and the text of a node's answer; 0 and nothing if it does not answer."""
    connection = (
        http.client.HTTPConnection(node.host, node.ports[0], timeout=timeout_s)
        if context is None
        else http.client.HTTPSConnection(node.host, node.ports[0], timeout=timeout_s, context=context)
    )
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


def run_tool(command: Sequence[str], shown: str, environment: Mapping[str, str], stdin: str) -> str:
    """Run an engine's command line, and return what it prints; raises EngineFailed, which calls it what is ``shown``."""
    answer = subprocess.run(
        command,
        env={**os.environ, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_TOOL_S,
        check=False,
    )
    if answer.returncode != 0:
        raise EngineFailed(shown, f"ended with {answer.returncode}", answer.stderr.strip())
    return answer.stdout
