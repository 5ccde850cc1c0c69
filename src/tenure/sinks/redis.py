"""Redis as a sink: the fence is compared by the script that does what the caller asks, in one step of the server. asyncio.

The fence is a key whose value is the highest token seen, as twenty digits. A write is one script: if the fence has exactly
this text, do what the caller asks, else say what the fence has. A successor's seal changes the fence, so whatever an older leader
sends afterwards finds another text there, however long it was on its way. A fence that has less is raised by the script
that writes: a server or a client that dies on the way has done neither. Nothing is compared as a number of Lua, which is exact up
to 2⁵³ only.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tenure.clients.redis import RedisClient, Script, settings_of
from tenure.clients.redis.failures import words
from tenure.clients.redis.resp import Argument, Fault, Reply
from tenure.clients.redis.settings import REDLOCK
from tenure.errors import ConfigError, OutcomeUnknown, Refused
from tenure.model import Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.digits import digits_of, number_in
from tenure.sinks.over_client import ClientSink

Command = Sequence[Argument]
"""A command of Redis with its arguments, such as ``("SET", "key", "value")``."""

FENCES: Final = "tenure:fence:"
# Each try that fails is another one's seal that came between; there are not many leaders at once.
_TRIES_MAX: Final = 8

# ARGV: the token, and what the fence may have instead: what the caller has found there, and judged to be less.
_GUARD: Final = """
local fence = redis.call('GET', KEYS[1]) or ''
if fence ~= ARGV[1] then
  if fence ~= ARGV[2] then
    return {0, fence}
  end
  redis.call('SET', KEYS[1], ARGV[1])
end
"""
# ARGV behind these: for each command how many words it has, and these.
_COMMANDS: Final = Script(f"""{_GUARD}
local answers, at = {{1}}, 3
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  local answer = redis.call(unpack(ARGV, at + 1, at + count))
  answers[#answers + 1] = answer or false
  at = at + 1 + count
end
return answers
""")
_SEAL: Final = Script("""
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
""")


class BoundRedis:
    """A sink as one tenure may use it. Fails with StaleToken once that tenure has been succeeded."""

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "RedisSink", term: Bound) -> None:
        self._sink, self._term = sink, term

    async def set(self, key: str, value: Argument) -> None:
        """Write one string. It does not expire."""
        await self.txn([("SET", key, value)])

    async def delete(self, *keys: str) -> int:
        """Delete keys, and return how many there were."""
        (count,) = await self.txn([("DEL", *keys)])
        return count if isinstance(count, int) else 0

    async def hset(self, key: str, fields: Mapping[str, Argument]) -> None:
        """Write fields of one hash."""
        await self.txn([("HSET", key, *(part for pair in fields.items() for part in pair))])

    async def xadd(self, key: str, fields: Mapping[str, Argument]) -> str:
        """Append one entry to a stream, and return its id."""
        (entry,) = await self.txn([("XADD", key, "*", *(part for pair in fields.items() for part in pair))])
        return entry.decode() if isinstance(entry, bytes) else ""

    async def txn(self, commands: Sequence[Command]) -> list[Reply]:
        """Carry out commands one after the other, if this tenure has not been succeeded, in one step with that check.

        Returns what each answered. One that Redis refuses raises Refused, and those before it stay carried out: Redis takes
        nothing back.
        """
        return await self._sink.txn(self._term, commands)

    async def run(self, script: str, keys: Sequence[str] = (), arguments: Sequence[Argument] = ()) -> Reply:
        """Carry out a script of your own, with ``KEYS`` and ``ARGV`` as it knows them, in one step with that check.

        A script that returns an error (``redis.error_reply``) raises Refused, and what it did before stays done. What changes
        from call to call belongs into ``arguments``: a server keeps every script that it was ever sent.
        """
        return await self._sink.run(self._term, script, keys, arguments)


class RedisSink(ClientSink[RedisClient]):
    """Keys in Redis that refuse writes of a leader that was succeeded: ``async with RedisSink(url) as sink``.

    ``server`` is a URL as for ``open_store``, or a client that is open and stays the caller's. The fences are keys that begin
    with ``fences``. With ``verify``, a token higher than any seen is confirmed by it first.

    Fences only what is written through it, or with ``guard`` by another client. The fence is as durable as the data beside
    it, and no more: a replica that is promoted may have lost both, and a server that evicts keys may evict it. Does not promise
    to know a write whose answer was lost: that raises OutcomeUnknown, and may have been carried out.
    """

    kind = "redis"

    def __init__(self, server: str | RedisClient, *, fences: str = FENCES, verify: Verify | None = None) -> None:
        if isinstance(server, str) and server.partition(":")[0] in REDLOCK:
            raise ConfigError("sink", server, "has several servers, and data live in one: write redis://…")
        client = RedisClient(settings_of(server)) if isinstance(server, str) else server
        super().__init__(client, owns=client is not server, fences=fences, verify=verify)

    def bind(self, term: Bound) -> BoundRedis:
        """Return the sink as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundRedis(self, term)

    def guard(self, term: Bound) -> tuple[str, str]:
        """Return the key and the text that another client must compare, in a script or between WATCH and MULTI.

        Holds only once the fence was sealed with this token, which an election does for the sinks that it was given.
        """
        return self._key(term.fence), digits_of(term.token)

    async def txn(self, term: Bound, commands: Sequence[Command]) -> list[Reply]:
        """Carry out ``commands`` under ``term``. Raises StaleToken, and changes nothing, if a larger token was here."""
        words: list[Argument] = []
        for command in commands:
            words += [len(command), *command]
        return await self._guarded(term, _COMMANDS, (), words)

    async def run(self, term: Bound, script: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Reply:
        """Carry out a script under ``term``. Raises StaleToken, and changes nothing, if a larger token was here."""
        # Inside a function of its own, so that it may return from wherever it likes, with names that count from one.
        text = f"""{_GUARD}
local function body(KEYS, ARGV)
{script}
end
local keys, arguments = {{}}, {{}}
for at = 2, #KEYS do keys[at - 1] = KEYS[at] end
for at = 3, #ARGV do arguments[at - 2] = ARGV[at] end
return {{1, body(keys, arguments)}}
"""
        answers = await self._guarded(term, Script(text), keys, arguments)
        answer = answers[0] if answers else None
        # Not ``failure``: whatever word a script of the caller's begins with, it was carried out up to there.
        if isinstance(answer, Fault):
            raise Refused(self._client.address, "write", words(answer))
        return answer

    async def _guarded(
        self, term: Bound, script: Script, keys: Sequence[str], arguments: Sequence[Argument]
    ) -> list[Reply]:
        key, own = self.guard(term)
        seen = own.encode()
        for _ in range(_TRIES_MAX):
            answer = await self._client.run(script, [key, *keys], [own, seen, *arguments], operation="write")
            assert isinstance(answer, list), f"a list was asked for, and {answer!r} came"
            if answer[0]:
                return answer[1:]
            seen = answer[1] if isinstance(answer[1], bytes) else b""
            await self._check_above(seen, term.fence, Token(term.token))
        raise OutcomeUnknown(self._client.address, "write", "the fence changed with every try; nothing was written")

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence to ``token`` (see ``Sink``)."""
        key, own = self._key(fence), digits_of(token)
        for _ in range(_TRIES_MAX):
            found = await self._client.call("GET", key, operation="seal")
            seen = found if isinstance(found, bytes) else b""
            if seen == own.encode():
                return
            await self._check_above(seen, fence, token)
            if await self._client.run(_SEAL, [key], [seen, own], operation="seal"):
                return
        raise OutcomeUnknown(self._client.address, "seal", "the fence changed with every try")

    async def _check_above(self, seen: bytes, fence: str, token: Token) -> None:
        """Return if a fence that has ``seen`` may be raised to ``token``. Raises StaleToken or UnverifiedToken if not."""
        # The same number in another spelling ("7", mended by hand) is written anew: writers compare the text.
        await self.judge(fence, token, number_in(seen, self._key(fence), self._client.address) if seen else 0)

    def _key(self, fence: str) -> str:
        return f"{self._fences}{fence}"
