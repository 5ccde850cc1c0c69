"""The contract of every sink: promises of ``sinks/base``, each with a check that can fail.

``check_sink(make)`` checks them all, in order; ``SINK_CONTRACT`` has them by name, for a test per promise. There are no
skips and no exceptions by name of a sink.
"""

import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import anyio
from anyio.lowlevel import checkpoint

from tenure.errors import StaleToken, UnverifiedToken
from tenure.facts import subscribe
from tenure.facts.kinds import Fact, RefusedStale, RefusedUnverified
from tenure.model import TOKEN_MAX, Token
from tenure.sinks.base import CountingSink
from tenure.testing.rig import expect
from tenure.testing.sink_rig import SinkPlay, SinkPromises, SinkRig, SinkT

SinkMake = Callable[[], AbstractAsyncContextManager[SinkRig[SinkT]]]

SINK_CONTRACT = SinkPromises()
"""Every promise by name, in the order in which ``check_sink`` checks them."""

_WRITER_COUNT = 50
_CLIENT_COUNT = 5
_TOKEN_COUNT = 10
_FORGED = 2**62
_HEARD_WITHIN_S = 10.0
# After how many turns of the event loop a call is cancelled: before it began, while it runs, and perhaps when it is over.
_CANCELLED_AFTER = (0, 1, 3, 10)


async def check_sink(make: SinkMake[SinkT]) -> None:
    """Check every promise of the contract, each on a rig of its own from ``make``.

    Raises ContractBroken for the first promise that is not kept. Proves nothing about faults that the rig cannot make: a
    lost answer, a failover of the system, a disk that forgets what was synced.
    """
    for name in SINK_CONTRACT:
        await check_sink_promise(name, make)


async def check_sink_promise(name: str, make: SinkMake[SinkT]) -> None:
    """Check one promise of ``SINK_CONTRACT``. Raises ContractBroken if it is not kept."""
    async with make() as rig:
        await SINK_CONTRACT[name](rig)


@SINK_CONTRACT.keep("newer-is-accepted")
async def _newer(play: SinkPlay[CountingSink]) -> None:
    first, second = await play.enter(2)
    await play.accepts(first, play.term(1), "one")
    await play.accepts(second, play.term(2), "two")
    await play.accepts(first, play.term(70), "seventy")


@SINK_CONTRACT.keep("equal-is-accepted")
async def _equal(play: SinkPlay[CountingSink]) -> None:
    first, second = await play.enter(2)
    for client, value in ((first, "one"), (first, "two"), (second, "three")):
        await play.accepts(client, play.term(7), value)


@SINK_CONTRACT.keep("older-is-refused")
async def _older(play: SinkPlay[CountingSink]) -> None:
    leader, successor = await play.enter(2)
    await play.accepts(leader, play.term(7), "old")
    await play.accepts(successor, play.term(9), "new")
    for client in (leader, successor):
        await play.refuses(client, play.term(7), StaleToken(7, 9))
        await play.refuses(client, play.term(8), StaleToken(8, 9))
    await play.accepts(successor, play.term(9), "newer")


@SINK_CONTRACT.keep("seal-refuses-older-at-once")
async def _seal(play: SinkPlay[CountingSink]) -> None:
    leader, successor = await play.enter(2)
    await play.accepts(leader, play.term(1), "old")
    await successor.seal(play.fence, Token(2))
    expect(await play.rig.read_all(play.fence) == ["old"], "a seal has written something")
    await play.refuses(leader, play.term(1), StaleToken(1, 2))
    await play.accepts(successor, play.term(2), "new")


@SINK_CONTRACT.keep("seal-is-idempotent")
async def _seal_again(play: SinkPlay[CountingSink]) -> None:
    leader, other = await play.enter(2)
    for client in (leader, leader, other):
        await client.seal(play.fence, Token(3))
        await play.accepts(leader, play.term(3), secrets.token_hex(2))
    await play.refuses(other, play.term(2), StaleToken(2, 3))


@SINK_CONTRACT.keep("stale-seal-is-refused")
async def _stale_seal(play: SinkPlay[CountingSink]) -> None:
    leader, successor = await play.enter(2)
    await successor.seal(play.fence, Token(5))
    await play.refuses_seal(leader, play.term(4), StaleToken(4, 5))
    await play.refuses(leader, play.term(4), StaleToken(4, 5))  # The seal has not lowered the fence.
    await play.accepts(successor, play.term(5), "new")
    await play.refuses_seal(leader, play.term(4), StaleToken(4, 5))


@SINK_CONTRACT.keep("tokens-are-exact")
async def _exact(play: SinkPlay[CountingSink]) -> None:
    # Where numbers are floating-point somewhere on the way (Lua, JSON), 2⁵³ and 2⁵³ + 1 are one.
    (client,) = await play.enter()
    for token in (2**53 + 1, TOKEN_MAX):
        await client.seal(play.fence, Token(token))
        await play.refuses(client, play.term(token - 1), StaleToken(token - 1, token))
        await play.accepts(client, play.term(token), str(token))


@SINK_CONTRACT.keep("only-integers-are-tokens")
async def _integers(play: SinkPlay[CountingSink]) -> None:
    # Written down as it came, 7.0 or true is nothing that is read as a token again, and locks out everybody. So does a number
    # that no store gives: a column of 64 bits turns it into another one, or keeps out all who come after it.
    (client,) = await play.enter()
    await play.accepts(client, play.term(3), "three")
    for nonsense in (7.0, True, 7.5, "7", None, 0, -1, TOKEN_MAX + 1, 2**200):
        await play.has_no_use_for(client, nonsense)
    await play.accepts(client, play.term(3), "again")  # The fence was not raised.
    await play.refuses(client, play.term(2), StaleToken(2, 3))


@SINK_CONTRACT.keep("fences-are-independent")
async def _independent(play: SinkPlay[CountingSink]) -> None:
    (client,) = await play.enter()
    await play.accepts(client, play.term(9), "nine")
    # Names that begin like the first or mean something in SQL, in a path or in a pattern: none may make one fence of two.
    for suffix in ("/other", "'\"", " %_*?", "/é😀", "/.."):
        other = replace(play.term(2), fence=play.fence + suffix)
        await play.accepts(client, other, "two")
        await client.seal(other.fence, Token(3))
        await play.refuses(client, other, StaleToken(2, 3))
        await play.accepts(client, play.term(9), suffix)


@SINK_CONTRACT.keep("fence-survives-reopening")
async def _reopened(play: SinkPlay[CountingSink]) -> None:
    async with play.rig.open() as client:
        await play.accepts(client, play.term(4), "four")
        await client.seal(play.fence, Token(6))
    await play.rig.restart()
    (client,) = await play.enter()
    await play.refuses(client, play.term(5), StaleToken(5, 6))
    await play.accepts(client, play.term(6), "six")


@SINK_CONTRACT.keep("crash-between-check-and-write-leaves-neither")
async def _crash(play: SinkPlay[CountingSink]) -> None:
    (client,) = await play.enter()
    await play.accepts(client, play.term(1), "one")
    await play.rig.crash_between_check_and_write(play.term(3), "lost")
    expect(
        await play.rig.read_all(play.fence) == ["one"], "a write is there whose writer had died before it was complete"
    )
    await play.accepts(client, play.term(2), "two")  # The check has gone with the write: the fence was not raised to 3.
    await play.rig.crash_between_check_and_write(play.term(2), "lost")
    await play.accepts(client, play.term(2), "again")


@SINK_CONTRACT.keep("cancelled-seal-leaves-nothing")
async def _cancelled(play: SinkPlay[CountingSink]) -> None:
    client, other = await play.enter(2)
    for token, turn_count in enumerate(_CANCELLED_AFTER, start=1):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.seal, play.fence, Token(token))
            for _ in range(turn_count):
                await checkpoint()
            tasks.cancel_scope.cancel()
        # Whether it took place is not known, and does not matter: the same token may be sealed, and written under.
        await other.seal(play.fence, Token(token))
        await client.seal(play.fence, Token(token))
        await play.accepts(client, play.term(token), str(token))


@SINK_CONTRACT.keep("fifty-writers-never-go-down")
async def _fifty(play: SinkPlay[CountingSink]) -> None:
    clients = await play.enter(_CLIENT_COUNT)
    told: dict[str, int] = {}

    async def write(number: int, token: int) -> None:
        value = f"{token}/{number}"
        try:
            await play.rig.write(clients[number % _CLIENT_COUNT], play.term(token), value)
        except StaleToken as stale:
            expect((stale.token, stale.highest > token) == (token, True), f"token {token} was refused with {stale!r}")
        else:
            told[value] = token

    async with anyio.create_task_group() as tasks:
        for number in range(_WRITER_COUNT):
            # Seven and ten share no divisor, so every token comes up five times, in no order.
            tasks.start_soon(write, number, 1 + number * 7 % _TOKEN_COUNT)
            await checkpoint()  # So that they begin in this order, the lowest token first, on every event loop.
    accepted = await play.rig.read_all(play.fence)
    tokens = [int(value.split("/")[0]) for value in accepted]
    expect(tokens == sorted(tokens), f"the tokens of the accepted writes went down: {tokens}")
    expect(
        sorted(accepted) == sorted(told), f"{sorted(told)} were told that they had written, and {accepted} are there"
    )
    highest = tokens.count(_TOKEN_COUNT)
    expect(highest == _WRITER_COUNT // _TOKEN_COUNT, f"{highest} writes under the highest token were accepted")


@SINK_CONTRACT.keep("unverified-token-is-refused")
async def _unverified(play: SinkPlay[CountingSink]) -> None:
    last_granted = 10

    async def verify(_: str, token: Token) -> bool:
        return token <= last_granted

    (client,) = await play.enter(verify=verify)
    await play.refuses_seal(client, play.term(TOKEN_MAX), UnverifiedToken(TOKEN_MAX, 0))
    await client.seal(play.fence, Token(5))
    await play.refuses_seal(client, play.term(11), UnverifiedToken(11, 5))
    await play.refuses(client, play.term(TOKEN_MAX), UnverifiedToken(TOKEN_MAX, 5))
    await play.accepts(client, play.term(5), "five")  # The fence was not raised, so nobody is locked out.
    await client.seal(play.fence, Token(10))
    await play.accepts(client, play.term(10), "ten")


@SINK_CONTRACT.keep("known-tokens-are-not-verified-again")
async def _known(play: SinkPlay[CountingSink]) -> None:
    asked: list[tuple[str, int]] = []

    async def verify(fence: str, token: Token) -> bool:
        asked.append((fence, token))
        return True

    (client,) = await play.enter(verify=verify)
    await client.seal(play.fence, Token(5))
    for value in ("one", "two"):
        await play.accepts(client, play.term(5), value)
        await client.seal(play.fence, Token(5))
    await play.refuses_seal(client, play.term(4), StaleToken(4, 5))
    await play.refuses(client, play.term(4), StaleToken(4, 5))
    expect(asked == [(play.fence, 5)], f"one new token came, and {asked} were to be verified")


@SINK_CONTRACT.keep("refusals-are-counted")
async def _counted(play: SinkPlay[CountingSink]) -> None:
    last_granted = 9

    async def verify(_: str, token: Token) -> bool:
        return token <= last_granted

    client, other = await play.enter(2, verify=verify)
    await client.seal(play.fence, Token(7))
    await play.accepts(client, play.term(7), "honest")
    play.counts(client, stale=0, unverified=0)
    await play.refuses_seal(client, play.term(_FORGED), UnverifiedToken(_FORGED, 7))
    play.counts(client, stale=0, unverified=1)
    await play.refuses(client, play.term(_FORGED), UnverifiedToken(_FORGED, 7))
    play.counts(client, stale=0, unverified=2)
    await play.refuses(client, play.term(6), StaleToken(6, 7))
    play.counts(client, stale=1, unverified=2)
    await play.refuses_seal(client, play.term(6), StaleToken(6, 7))
    play.counts(client, stale=2, unverified=2)
    await play.accepts(
        client, play.term(7), "still"
    )  # What was refused has locked nobody out, neither here nor elsewhere.
    await other.seal(play.fence, Token(last_granted))
    await play.accepts(other, play.term(last_granted), "next")
    await play.refuses(client, play.term(7), StaleToken(7, last_granted))
    play.counts(client, stale=3, unverified=2)
    play.counts(other, stale=0, unverified=0)


@SINK_CONTRACT.keep("refusals-are-told-with-their-fence")
async def _told(play: SinkPlay[CountingSink]) -> None:
    last_granted = 7

    async def verify(_: str, token: Token) -> bool:
        return token <= last_granted

    told: list[RefusedStale | RefusedUnverified] = []

    def hear(fact: Fact) -> None:
        if isinstance(fact.what, RefusedStale | RefusedUnverified) and fact.what.fence == play.fence:
            told.append(fact.what)

    (client,) = await play.enter(verify=verify)
    with subscribe(hear, kinds=(RefusedStale, RefusedUnverified)) as listening:
        await client.seal(play.fence, Token(last_granted))
        await play.refuses(client, play.term(6), StaleToken(6, 7))
        await play.refuses_seal(client, play.term(5), StaleToken(5, 7))
        await play.refuses(client, play.term(_FORGED), UnverifiedToken(_FORGED, 7))
        await anyio.to_thread.run_sync(listening.wait_until_told, _HEARD_WITHIN_S)
    # A service that refuses tells it as well as the sink that asked it; so each is told at least once.
    for kind, token in ((RefusedStale, 6), (RefusedStale, 5), (RefusedUnverified, _FORGED)):
        found = any(isinstance(what, kind) and (what.token, what.highest) == (token, 7) for what in told)
        expect(found, f"token {token} of the fence {play.fence} was refused, and told of that fence was {told}")
