"""A node of a service that only its leader answers, on a real uvicorn: ``python -m tests.control.node_process STORE PORT [--redirect]``."""

import sys
from typing import Any

import anyio
import uvicorn

from tenure import Election, Tenure, open_store
from tenure.web import LeaderASGI

HOST = "127.0.0.1"


async def app(scope: Any, receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    token = scope["tenure"].token if "tenure" in scope else None
    said = f"{scope['path']}?{scope['query_string'].decode()} {body.decode()} {token} {sys.argv[2]}".encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(said)).encode())]}
    )
    await send({"type": "http.response.body", "body": said})


async def main(store_url: str, port: int, *, redirect: bool) -> None:
    async with open_store(store_url) as store:
        election = Election(store, "api", ttl=1.0, advertise=f"http://{HOST}:{port}")
        gate = LeaderASGI(app, election, needs_leader=lambda _, path: path != "/public", redirect=redirect)

        async def lead(term: Tenure) -> None:
            with gate.serving(term):
                print("leads", flush=True)
                await anyio.sleep_forever()

        config = uvicorn.Config(gate, host=HOST, port=port, log_level="critical", lifespan="off", ws="none")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(uvicorn.Server(config).serve)
            await election.lead(lead)


if __name__ == "__main__":
    anyio.run(lambda: main(sys.argv[1], int(sys.argv[2]), redirect="--redirect" in sys.argv))
