"""Redlock: an office is held where a majority of servers, which know nothing of each other, says so. Runs on asyncio.

All are asked at once, and each has a short deadline; whoever is still silent when the others have decided is not waited for,
but for two cases. A claim that does not win must take back every vote that it got, so it has to know them; and a list shows
what any server knows of. Who does either is not in office, and has the time. A
claim takes two rounds: votes, and then the token, one above all that the voters know of, written to a majority before
anybody is in office by it. Without the second round tokens would not rise: two majorities need not share the server that
knew the highest one.

What it promises needs more than the servers can promise: clocks that run evenly, and that no server forgets. One that
restarts without its data votes again, and two have a majority. So it is best effort, as one Redis is.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from tenure.clients.redis import RedisClient, Script, Settings, settings_of
from tenure.clients.redis.resp import Argument
from tenure.errors import OutcomeUnknown, Refused, StoreError
from tenure.model import Bid, Ended, Grant, Incumbent, Token, Wait
from tenure.stores.base import ElectionStatus, Wake
from tenure.stores.examining import Finding
from tenure.stores.redis import scripts
from tenure.stores.redis.answers import Answer, Decided, lists, numbers, offices_in, too_few
from tenure.stores.redis.common import Remembering, traits_of
from tenure.stores.redis.examine import examine_each
from tenure.stores.redis.lookout import Lookout
from tenure.stores.redis.naming import agreed_name
from tenure.stores.redis.records import (
    Held,
    Keys,
    claim_arguments,
    held_in,
    merged,
    renew_arguments,
    status_in,
    text_in,
    token_in,
    who,
)
from tenure.stores.redis.store import TOGETHER_MAX
from tenure.stores.redis.voting import Ballot, Outcome, Vote, free_in_s, is_firm, majority_of, settled
from tenure.stores.turns import Turns

# A server gets an eighth of the lease to answer, so that a claim, of two rounds, and its repeat fit into half of it.
_DEADLINES_PER_TTL: Final = 8
# Votes that split are tried again, each time after longer: of ten that begin at once, one was always through by the fourth.
_TRIES_MAX: Final = 8
_AGAIN_S: Final = 0.01
_TRAITS: Final = traits_of(Wake.POLL, "the highest counter of a majority of servers, written back to a majority")


def from_url(url: str, **options: str) -> "RedlockStore":
    """Return a store for ``redlock://h1,h2,h3,h4,h5/db``, or ``redlocks://`` for TLS; ``settings_of`` knows the options."""
    return RedlockStore(settings_of(url, **options))


class RedlockStore(Remembering):
    """Elections at a majority of servers: ``async with RedlockStore(settings) as store``."""

    no_documents = "servers that know nothing of each other have no version in common, nor agree on the last write"

    def __init__(self, settings: Settings, *, chance: random.Random | None = None) -> None:
        super().__init__(settings.address, _TRAITS)
        self._settings, self._chance = settings, chance or random.Random()
        self._nodes = [
            RedisClient(replace(settings, endpoints=(endpoint,), address=f"{settings.address} ({endpoint})"))
            for endpoint in settings.endpoints
        ]
        self.keys = Keys(settings.prefix, settings.db)
        self._identity = ""
        self._turns = Turns()
        self._lookout = Lookout(self._look, self._chance)
        self._claiming: dict[str, asyncio.Lock] = {}

    async def __aenter__(self) -> Self:
        opened = False
        try:
            self._identity = await agreed_name(self._nodes, self.keys.identity, self.address)
            opened = True
        finally:
            if not opened:
                await self.__aexit__(None, None, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._lookout.close()
            await self._turns.all_ended()
        finally:
            for node in self._nodes:
                await node.__aexit__(kind, error, trace)

    @property
    def identity(self) -> str:
        """A random name that a majority of the servers has, made by whoever came first. Known once it is open."""
        return f"redlock/{self._identity}"

    # The office

    async def claim(self, bid: Bid) -> Grant | Wait:
        self._check_claim(bid)
        # One after the other: those of one process would split the votes among themselves.
        lock = self._claiming.setdefault(bid.election, asyncio.Lock())
        try:
            async with lock:
                return await self._claim(bid)
        finally:
            if not lock.locked() and self._claiming.get(bid.election) is lock:
                del self._claiming[bid.election]

    async def _claim(self, bid: Bid) -> Grant | Wait:
        for attempt in range(_TRIES_MAX):
            ballot = await self._vote(bid)
            outcome = ballot.outcome()
            if outcome is Outcome.WON:
                return await self._take(bid, ballot)
            if outcome is Outcome.TAKEN:
                if ballot.votes:
                    await self._withdraw(bid)
                held = ballot.incumbent()
                self._seen(held)
                return Wait(bid, None if held is None else held.incumbent(bid.election))
            if not ballot.keeps(bid):
                await self._withdraw(bid)
            await asyncio.sleep(self._chance.uniform(0, _AGAIN_S * 2**attempt))
        await self._withdraw(bid)
        return Wait(bid, None)

    async def _vote(self, bid: Bid) -> Ballot:
        keys, arguments = self.keys.of_claim(bid.election), claim_arguments(self._identity, bid, self._highest)
        office = self.keys.office(bid.election)

        def read(answers: Sequence[Answer]) -> Ballot:
            votes: list[Vote] = []
            others: list[Held] = []
            for answer in answers:
                if isinstance(answer, list):
                    granted, *parts = answer
                    if granted:
                        votes.append(Vote(*(token_in(part, office, self.address, "claim", least=0) for part in parts)))
                    else:
                        held = held_in(parts, office, self.address, "claim")
                        others += [] if held is None else [held]
            return Ballot(len(self._nodes), votes, others)

        answers = await self._ask(
            scripts.VOTE,
            keys,
            arguments,
            "claim",
            ttl_ns=bid.ttl_ns,
            decided=lambda so_far: read(so_far).outcome() is Outcome.WON,
        )
        ballot = read(answers)
        if ballot.outcome() is Outcome.UNHEARD:
            if ballot.votes:
                await self._withdraw(bid)
            raise self._too_few(answers, "claim")
        return ballot

    async def _take(self, bid: Bid, ballot: Ballot) -> Grant:
        """Write the token of a bid that has the votes to a majority. Only then is it in office."""
        token = ballot.token(self._highest)
        if not token:
            await self._withdraw(bid)
            raise Refused(self.address, "claim", "all tokens are used up")
        keys = [self.keys.identity, self.keys.office(bid.election), self.keys.token]
        arguments: list[Argument] = [self._identity, *who(bid), token]
        answers = await self._ask(scripts.SETTLE, keys, arguments, "claim", ttl_ns=bid.ttl_ns, decided=self._is_settled)
        if not settled(len(self._nodes), numbers(answers)):
            await self._withdraw(bid)
            raise OutcomeUnknown(self.address, "claim", "a majority gave its vote, and did not confirm the token")
        self._highest = max(self._highest, token)
        return Grant(bid, Token(token))

    async def renew(self, grant: Grant) -> Grant | Ended:
        (answer,) = await self.renew_together([grant])
        return answer

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        """Renew many tenures by one script on each server. If it fails, some of them may have been renewed."""
        for grant in grants:
            self._check_bid("renew", grant.bid)
        answers: list[Grant | Ended] = []
        for first in range(0, len(grants), TOGETHER_MAX):
            answers += await self._renew(grants[first : first + TOGETHER_MAX])
        return answers

    async def _renew(self, grants: list[Grant]) -> list[Grant | Ended]:
        size = len(self._nodes)

        def verdicts(answers: Sequence[Answer]) -> list[bool | None]:
            told = [answer for answer in answers if isinstance(answer, list)]
            return [settled(size, numbers([answer[at] for answer in told])) for at in range(len(grants))]

        keys = [self.keys.identity, *(self.keys.office(grant.bid.election) for grant in grants)]
        shortest_ns = min(grant.bid.ttl_ns for grant in grants)
        answers = await self._ask(
            scripts.RENEW,
            keys,
            renew_arguments(self._identity, grants),
            "renew",
            ttl_ns=shortest_ns,
            decided=lambda so_far: None not in verdicts(so_far),
        )
        told = verdicts(answers)
        if None in told:
            raise self._too_few(answers, "renew")
        for at, grant in enumerate(grants):
            if any(isinstance(answer, list) and answer[at] == scripts.ASKED for answer in answers):
                self._asked_to_resign[grant.bid.election] = grant.token
        return [grant if lasts else Ended(grant.bid, grant.token) for grant, lasts in zip(grants, told, strict=True)]

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        self._check_bid("proclaim", grant.bid)
        self._check_texts("proclaim", address or "-")
        keys = [self.keys.identity, self.keys.office(grant.bid.election)]
        arguments: list[Argument] = [self._identity, *who(grant.bid), grant.token, address]
        answers = await self._ask(
            scripts.PROCLAIM, keys, arguments, "proclaim", ttl_ns=grant.bid.ttl_ns, decided=self._is_settled
        )
        lasts = settled(len(self._nodes), numbers(answers))
        if lasts is None:
            raise self._too_few(answers, "proclaim")
        return grant if lasts else Ended(grant.bid, grant.token)

    async def release(self, bid: Bid) -> None:
        """End whatever this bid got, on every server that answers. Where it is silent, the office ends with its lease."""
        self._check_bid("release", bid)
        self._asked_to_resign.pop(bid.election, None)
        majority = majority_of(len(self._nodes))
        answers = await self._withdraw(bid, decided=lambda so_far: len(numbers(so_far)) >= majority)
        if len(numbers(answers)) < majority:
            raise self._too_few(answers, "release")

    async def _withdraw(self, bid: Bid, decided: Decided = lambda _: False) -> list[Answer]:
        # A claim waits for all: it may ask for the same votes again, and must not be overtaken by its own word against them.
        keys = [self.keys.identity, self.keys.office(bid.election), self.keys.standby(bid.election)]
        arguments: list[Argument] = [self._identity, *who(bid), self.keys.channel(bid.election), bid.election]
        return await self._ask(scripts.RELEASE, keys, arguments, "release", ttl_ns=bid.ttl_ns, decided=decided)

    # Those who have not the office

    async def changed(self, wait: Wait) -> None:
        self._check_bid("changed", wait.bid)
        await self._lookout.wait(wait.bid.election, wait.bid.ttl_ns / 1e9)

    async def _look(self, elections: Sequence[str]) -> dict[str, float]:
        left_s: dict[str, float] = {}
        size = len(self._nodes)
        for first in range(0, len(elections), TOGETHER_MAX):
            some = elections[first : first + TOGETHER_MAX]
            keys = [self.keys.identity, *(self.keys.office(election) for election in some)]
            told = await self._ask(scripts.LOOK, keys, [self._identity], "changed", decided=self._is_looked)
            if len(lists(told)) < majority_of(size):
                raise self._too_few(told, "changed")
            for election, pairs in zip(some, offices_in(told), strict=True):
                left_s[election] = free_in_s(size, pairs)
        return left_s

    async def read(self, election: str) -> Incumbent | None:
        return await self._read(election, "read", word=False)

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        """Ask whoever is in office to leave, and return who that is. It learns of it at its next renewal."""
        return await self._read(election, "ask to resign", word=True)

    async def _read(self, election: str, operation: str, *, word: bool) -> Incumbent | None:
        self._check_texts(operation, election)
        key, size = self.keys.office(election), len(self._nodes)

        def read(answers: Sequence[Answer]) -> list[Held | None]:
            return [held_in(answer, key, self.address, operation) for answer in lists(answers)]

        answers = await self._ask(
            scripts.READ,
            [self.keys.identity, key],
            [self._identity, int(word)],
            operation,
            decided=lambda so_far: is_firm(size, read(so_far)),
        )
        told = read(answers)
        held = Ballot(size, [], [held for held in told if held is not None]).incumbent()
        if held is None and (size - len(told)) > size - majority_of(size):
            raise self._too_few(answers, operation)
        self._seen(held)
        return None if held is None else held.incumbent(election)

    async def elections(self) -> list[ElectionStatus]:
        arguments: list[Argument] = [self._identity, self.keys.office(""), self.keys.standby("")]
        answers = await self._ask(scripts.LIST, [self.keys.identity, self.keys.elections], arguments, "elections")
        told = lists(answers)
        if len(told) < majority_of(len(self._nodes)):
            raise self._too_few(answers, "elections")
        found: dict[str, list[ElectionStatus]] = {}
        for now, *each in told:
            for one in each:
                status = status_in(one, self.keys, int(text_in(now)), self.address)
                found.setdefault(status.election, []).append(status)
        return [merged(election, found[election], majority_of(len(self._nodes))) for election in sorted(found)]

    async def examine(self, ttl_ns: int) -> list[Finding]:
        return await examine_each(self, self._nodes, ttl_ns)

    # Asking

    def _is_settled(self, answers: Sequence[Answer]) -> bool:
        return settled(len(self._nodes), numbers(answers)) is not None

    def _is_looked(self, answers: Sequence[Answer]) -> bool:
        told = offices_in(answers)
        return bool(told) and all(is_firm(len(self._nodes), [held for held, _ in pairs]) for pairs in told)

    async def _ask(  # noqa: PLR0913  (a request has so many parts)
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[Argument],
        operation: str,
        *,
        ttl_ns: int | None = None,
        decided: Decided = lambda _: False,
    ) -> list[Answer]:
        """Ask every server at once, and return the answers there are once these decide; the others are left to their deadline."""
        within_s = self._settings.timeout_s
        if ttl_ns is not None:
            within_s = min(within_s, ttl_ns / _DEADLINES_PER_TTL / 1e9)

        async def ask(node: RedisClient) -> Answer:
            try:
                return await node.run(script, keys, arguments, operation=operation, within_s=within_s)
            except StoreError as error:
                return error

        waiting = {self._turns.start(ask(node)) for node in self._nodes}
        answers: list[Answer] = []
        while waiting and not decided(answers):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answers += [task.result() for task in done]
        return answers

    def _too_few(self, answers: Sequence[Answer], operation: str) -> StoreError:
        return too_few(len(self._nodes), answers, self.address, operation)
