"""A server in place of Consul, which answers as it is told to."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.settings import settings_of

PAIR = {"Key": "x/.lock", "Value": "aGk=", "Flags": 7, "ModifyIndex": 9, "LockIndex": 1, "CreateIndex": 1}


def play(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await story

    asyncio.run(bounded())


class Told:
    """One request, as it arrived."""

    def __init__(self, head: str, body: bytes) -> None:
        first, *headers = head.split("\r\n")
        self.method, target, _ = first.split(" ")
        self.path = urlsplit(target).path
        self.query = {key: value[0] for key, value in parse_qs(urlsplit(target).query, keep_blank_values=True).items()}
        self.headers = dict(line.lower().split(": ", 1) for line in headers if line)
        self.body: Any = json.loads(body) if body else None


class Consul:
    """Gives the answers that it was given, one after the other; None is no answer."""

    def __init__(self, *answers: tuple[int, object, dict[str, str]] | None) -> None:
        self.answers = list(answers)
        self.told: list[Told] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next((line for line in head.lower().split("\r\n") if line.startswith("content-length:")), ":0")
                self.told.append(Told(head, await reader.readexactly(int(length.split(":")[1]))))
                answer = self.answers.pop(0)
                if answer is None:
                    await reader.read()
                    return
                status, said, headers = answer
                text = said if isinstance(said, str) else json.dumps(said)
                lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(text.encode())}"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                writer.write(("\r\n".join(lines) + "\r\n\r\n" + text).encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def asking(*consuls: Consul, user: str = "", query: str = "") -> AsyncIterator[ConsulClient]:
    servers = [await asyncio.start_server(consul.serve, "127.0.0.1", 0) for consul in consuls]
    hosts = ",".join(f"127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers)
    try:
        async with ConsulClient(settings_of(f"consul://{user}{hosts}{query}")) as client:
            yield client
    finally:
        for server in servers:
            server.close()


def ok(said: object, **headers: str) -> tuple[int, object, dict[str, str]]:
    return 200, said, {name.replace("_", "-"): value for name, value in headers.items()}
