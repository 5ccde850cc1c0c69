"""For people and their tools: the page, what it shows, metrics, and the description of all this."""

from tenure.serve.answers import Fault, encoded
from tenure.serve.board_page import INDEX, asset
from tenure.serve.routes import Call, Reply, told


async def page(_: Call) -> Reply:
    """The page."""
    return _asset(INDEX)


async def file(call: Call) -> Reply:
    """A file of the page."""
    return _asset(call.path["name"])


async def board(call: Call) -> Reply:
    """All that the page shows, and which event it is up to."""
    return told(call.sidecar.board.as_json(), headers={"Tenure-Event-Id": call.sidecar.hub.last_id})


async def metrics(call: Call) -> Reply:
    """Metrics as Prometheus scrapes them."""
    content, kind = call.sidecar.metrics.exposition()
    return Reply(200, content, {}, kind.encode())


async def document(call: Call) -> Reply:
    """The OpenAPI document."""
    return Reply(200, encoded(call.sidecar.document))


def _asset(name: str) -> Reply:
    found = asset(name)
    if found is None:
        raise Fault(404, "no-such-file", f"the page has no file {name[:40]!r}")
    headers = {name: value for name, value in found.headers.items() if name != "Content-Type"}
    return Reply(200, found.body, headers, found.content_type.encode())
