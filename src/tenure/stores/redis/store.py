"""The store: the methods of ``stores/base`` as scripts on one Redis. Runs on asyncio.

What it promises holds for as long as this one server keeps its data and its clock. A replica that is promoted in its place
may not have heard of the last office, nor of its token: two may then lead at once, and the later one with the lower token. It
cannot be mended from outside, so this store is best effort, and must be opened as such.
"""

import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

from tenure.clients.redis.client import RedisClient, Script
from tenure.clients.redis.resp import Argument, Reply
from tenure.errors import Refused
from tenure.model import Bid, Conflict, Document, Ended, Grant, Incumbent, Version, Wait
from tenure.stores.base import ElectionStatus, Wake
from tenure.stores.examining import Finding
from tenure.stores.redis import scripts
from tenure.stores.redis.common import Remembering, traits_of
from tenure.stores.redis.examine import examine
from tenure.stores.redis.hearing import Hearing
from tenure.stores.redis.lookout import Lookout
from tenure.stores.redis.records import (
    Keys,
    claim_arguments,
    document_in,
    held_in,
    items,
    name_in,
    renew_arguments,
    status_in,
    text_in,
    token_in,
    who,
)

# A script keeps the server from everybody else, so it must not grow without bound: these take about a millisecond.
TOGETHER_MAX: Final = 256
OTHER_STORE: Final = "OTHERSTORE"
_TRAITS: Final = traits_of(Wake.NOTIFY, "a counter in Redis, over all elections of one prefix")


class RedisStore(Remembering):
    """Elections in one Redis: ``async with RedisStore(client) as store``."""

    def __init__(self, client: RedisClient) -> None:
        super().__init__(client.address, _TRAITS)
        self._client = client
        self.keys = Keys(client.settings.prefix, client.settings.db)
        self._identity = ""
        self._lookout = Lookout(self._look)
        self._hearing = Hearing(client, self._heard, self._lookout.nudge)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as unless_it_answers:
            await unless_it_answers.enter_async_context(self._client)
            made_up = secrets.token_hex(8)
            named = await self._client.run(scripts.NAME, [self.keys.identity], [made_up], operation="open")
            self._identity = name_in(named, self.keys.identity, self.address)
            unless_it_answers.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with AsyncExitStack() as closing:  # Each step is taken, also if the one before it is cancelled.
            closing.push_async_callback(self._client.__aexit__, kind, error, trace)
            closing.push_async_callback(self._hearing.close)
            await self._lookout.close()

    @property
    def identity(self) -> str:
        """A random name in a key of its own, made by whoever came first. Known once it is open.

        Each process compares it with every request and puts it back where it is missing, so that data that were lost do not
        make new fences. Where another one was made meanwhile, requests are refused: open the store again.
        """
        return f"redis/{self._identity}"

    @property
    def unheard(self) -> str:
        """Why nobody tells us of releases; empty: somebody does, or nobody has waited yet."""
        return self._hearing.refused

    # The office

    async def claim(self, bid: Bid) -> Grant | Wait:
        self._check_claim(bid)
        keys, arguments = self.keys.of_claim(bid.election), claim_arguments(self._identity, bid, self._highest)
        granted, *parts = items(await self._run(scripts.CLAIM, keys, arguments, "claim"))
        if granted:
            token = token_in(parts[0], self.keys.office(bid.election), self.address, "claim")
            self._highest = max(self._highest, token)
            return Grant(bid, token)
        held = held_in(parts, self.keys.office(bid.election), self.address, "claim")
        self._seen(held)
        return Wait(bid, None if held is None else held.incumbent(bid.election))

    async def renew(self, grant: Grant) -> Grant | Ended:
        (answer,) = await self.renew_together([grant])
        return answer

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        """Renew many tenures by one script. If it fails, some of them may have been renewed."""
        for grant in grants:
            self._check_bid("renew", grant.bid)
        answers: list[Grant | Ended] = []
        for first in range(0, len(grants), TOGETHER_MAX):
            some = grants[first : first + TOGETHER_MAX]
            keys = [self.keys.identity, *(self.keys.office(grant.bid.election) for grant in some)]
            told = items(await self._run(scripts.RENEW, keys, renew_arguments(self._identity, some), "renew"))
            for grant, what in zip(some, told, strict=True):
                answers.append(grant if what else Ended(grant.bid, grant.token))
                if what == scripts.ASKED:
                    self._asked_to_resign[grant.bid.election] = grant.token
        return answers

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        self._check_bid("proclaim", grant.bid)
        self._check_texts("proclaim", address or "-")
        keys = [self.keys.identity, self.keys.office(grant.bid.election)]
        arguments: list[Argument] = [self._identity, *who(grant.bid), grant.token, address]
        lasts = await self._run(scripts.PROCLAIM, keys, arguments, "proclaim")
        return grant if lasts else Ended(grant.bid, grant.token)

    async def release(self, bid: Bid) -> None:
        self._check_bid("release", bid)
        self._asked_to_resign.pop(bid.election, None)
        keys = [self.keys.identity, self.keys.office(bid.election), self.keys.standby(bid.election)]
        arguments: list[Argument] = [self._identity, *who(bid), self.keys.channel(bid.election), bid.election]
        await self._run(scripts.RELEASE, keys, arguments, "release")

    # Those who have not the office

    async def changed(self, wait: Wait) -> None:
        self._check_bid("changed", wait.bid)
        channel = self.keys.channel(wait.bid.election)
        self._hearing.want(channel)
        try:
            await self._lookout.wait(wait.bid.election, wait.bid.ttl_ns / 1e9)
        finally:
            self._hearing.unwant(channel)

    def _heard(self, election: bytes) -> None:
        self._lookout.left(election.decode("utf-8", "replace"))

    async def _look(self, elections: Sequence[str]) -> dict[str, float]:
        left_s: dict[str, float] = {}
        for first in range(0, len(elections), TOGETHER_MAX):
            some = elections[first : first + TOGETHER_MAX]
            keys = [self.keys.identity, *(self.keys.office(election) for election in some)]
            told = items(await self._run(scripts.LOOK, keys, [self._identity], "changed"))
            for election, ms in zip(some, told[1::2], strict=True):
                left_s[election] = scripts.left_s(ms)
        self._hearing.follow()
        return left_s

    async def read(self, election: str) -> Incumbent | None:
        return await self._read(election, "read", word=False)

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        """Ask whoever is in office to leave, and return who that is. It learns of it at its next renewal."""
        return await self._read(election, "ask to resign", word=True)

    async def _read(self, election: str, operation: str, *, word: bool) -> Incumbent | None:
        self._check_texts(operation, election)
        key = self.keys.office(election)
        parts = await self._run(scripts.READ, [self.keys.identity, key], [self._identity, int(word)], operation)
        held = held_in(parts, key, self.address, operation)
        self._seen(held)
        return None if held is None else held.incumbent(election)

    async def elections(self) -> list[ElectionStatus]:
        arguments: list[Argument] = [self._identity, self.keys.office(""), self.keys.standby("")]
        keys = [self.keys.identity, self.keys.elections]
        now, *told = items(await self._run(scripts.LIST, keys, arguments, "elections"))
        found = [status_in(each, self.keys, int(text_in(now)), self.address) for each in told]
        return sorted(found, key=lambda status: status.election)

    async def fetch(self, key: str) -> Document | None:
        """Return a document. An acknowledged one can be lost, as an office can; a version of before then fits no later one."""
        self._check_texts("fetch", key)
        keys = [self.keys.identity, self.keys.document(key)]
        return document_in(await self._run(scripts.FETCH, keys, [self._identity], "fetch"), keys[1], self.address)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        self._check_texts("swap", key)
        keys, written = [self.keys.identity, self.keys.document(key)], Document(value, Version(secrets.token_hex(8)))
        arguments: list[Argument] = [self._identity, value, written.version, version or ""]
        answer = await self._run(scripts.SWAP, keys, arguments, "swap")
        return written if answer == 1 else Conflict(document_in(answer, keys[1], self.address))

    async def examine(self, ttl_ns: int) -> list[Finding]:
        return await examine(self, self._client, ttl_ns)

    async def _run(self, script: Script, keys: list[str], arguments: Sequence[Argument], operation: str) -> Reply:
        try:
            return await self._client.run(script, keys, arguments, operation=operation)
        except Refused as error:
            if error.detail.startswith(OTHER_STORE):
                rule = (
                    "the store has lost its data and was named anew: fences of before know nothing of its tokens; "
                    "stop all leaders, then open it again"
                )
                raise Refused(self.address, operation, rule) from None
            raise
