"""What lowering a fence must do wherever a sink keeps one: the same story for every kind of server."""

import asyncio
import io
import json
import sys
import warnings
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, redirect_stderr, redirect_stdout
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from anyio import to_thread

from tenure.cli.commands import invoke
from tenure.errors import ConfigError, StaleToken, UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import Bound, Repair, fences_of, lower_fence
from tenure.sinks.repairing import Fences

POISON = 2**62
WHY = "ein Test schrieb’s 🐟"


class Place(NamedTuple):
    """A place that sinks write to: how they are opened, and how one writes through one."""

    target: str
    fence: str
    open: Callable[..., AbstractAsyncContextManager[Any]]  # with verify=
    write: Callable[[Any, Bound], Awaitable[object]]

    def term(self, token: int) -> Bound:
        return SimpleNamespace(fence=self.fence, token=token)

    async def written(self, sink: Any, token: int) -> None:
        await self.write(sink, self.term(token))

    async def look(self) -> Fences:
        """All of it, but of this fence only: servers are shared."""
        found = await to_thread.run_sync(fences_of, self.target)
        highest = {fence: number for fence, number in found.highest.items() if fence == self.fence}
        return Fences(highest, tuple(one for one in found.repairs if one.fence == self.fence))

    async def lower(self, was: int, to: int, why: str = WHY, who: str | None = "ada") -> Repair:
        return await to_thread.run_sync(partial(lower_fence, self.target, self.fence, was=was, to=to, why=why, who=who))


class Done(NamedTuple):
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


def tenure_fence(*words: str) -> Done:
    """Run the command in this process: a process of its own for each would take a second."""
    out, err, argv = io.StringIO(), io.StringIO(), sys.argv
    try:
        sys.argv = ["tenure", "fence", *words]
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            code = invoke()
    finally:
        sys.argv = argv
    return Done(code, out.getvalue(), err.getvalue())


def refused_in_one_line(code: int, *words: str, secret: str = "") -> str:
    """Run the command, which must say no. Returns what it says."""
    done = tenure_fence(*words)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not secret or secret not in done.stderr, done.stderr
    return done.stderr


async def check_repair(place: Place) -> None:
    """Poison a fence, mend it, and see who can write before and after."""
    async with place.open(verify=None) as honest, place.open(verify=lambda _, token: token < POISON) as careful:
        await place.written(honest, 17)
        await honest.seal(place.fence, Token(POISON))
        for token in (17, 18):
            with pytest.raises(StaleToken):
                await place.written(honest, token)
        await place.written(careful, POISON)  # which has it in its memory now, if it has one
        await _check_that_nothing_else_changes_it(place)

        repair = await place.lower(POISON, 17)
        assert await place.look() == ({place.fence: 17}, (repair,))
        assert (repair.was, repair.now, repair.who, repair.why) == (POISON, 17, "ada", WHY)
        # Whoever remembers that the wrong token was sealed has to have it confirmed again.
        with pytest.raises(UnverifiedToken):
            await place.written(careful, POISON)
        # The leader of before is let in again, which is why it must be stopped if it is not the leader any more.
        await place.written(honest, 17)
        await place.written(careful, 18)
        with pytest.raises(StaleToken, match="highest seen is 18"):
            await place.written(honest, 17)
        again = await place.lower(18, 0, who=None)
        assert (await place.look()).repairs == (repair, again)
        assert (await place.look()).highest.get(place.fence, 0) == 0
        await place.written(honest, 1)
        assert (await place.look()).highest == {place.fence: 1}
        # Nobody who has no verify= is kept from poisoning it again.
        await place.written(honest, POISON)
        assert (await place.look()).highest == {place.fence: POISON}


async def _check_that_nothing_else_changes_it(place: Place) -> None:
    wrong = [(POISON - 1, 7), (POISON + 1, 7), (17, 7), (POISON, POISON), (POISON, -1), (TOKEN_MAX + 1, 7), (10**40, 7)]
    for was, to in wrong:
        with pytest.raises(ConfigError):
            await place.lower(was, to)
    for why, who in ((" ", "ada"), ("x" * 501, "ada"), ("a\0b", "ada"), (WHY, "a\0b")):
        with pytest.raises(ConfigError):
            await place.lower(POISON, 17, why=why, who=who)
    with pytest.raises(ConfigError, match="which is 0: look again"):
        await place._replace(fence=f"{place.fence}/another").lower(POISON, 17)
    assert await place.look() == ({place.fence: POISON}, ())


async def check_race(place: Place) -> None:
    """Many lower the same fence from the same height at once: one of them does."""
    async with place.open(verify=None) as sink:
        await sink.seal(place.fence, Token(POISON))
        lowered = await asyncio.gather(*(place.lower(POISON, 7 + n) for n in range(6)), return_exceptions=True)
        done = [one for one in lowered if not isinstance(one, BaseException)]
        assert len(done) == 1
        assert all(isinstance(one, ConfigError) for one in lowered if one is not done[0]), lowered
        assert await place.look() == ({place.fence: done[0].now}, (done[0],))


def check_command(place: Place, secret: str = "") -> None:
    """The same by the command line."""

    async def poison() -> None:
        async with place.open(verify=None) as sink:
            await sink.seal(place.fence, Token(POISON))

    asyncio.run(poison())
    target, fence = place.target, place.fence
    assert f"{POISON}  {fence}\n" in tenure_fence("show", target).stdout
    words = ("lower", target, fence, "--why", WHY)
    for was, to in ((9, 7), (POISON, POISON), (POISON, -1), ("many", 7), (10**40, 7), (POISON, "1e3"), ("9" * 5000, 7)):
        refused_in_one_line(2, *words, "--was", str(was), "--to", str(to), secret=secret)
    told = refused_in_one_line(2, *words, "--was", "9", "--to", "7")
    assert f"was = 9: must be what the fence stands at, which is {POISON}: look again" in told
    told = refused_in_one_line(2, "lower", target, "nowhere", "--was", "9", "--to", "7", "--why", WHY)
    assert "which is 0" in told
    assert asyncio.run(place.look()) == ({fence: POISON}, ())

    done = tenure_fence(*words, "--was", str(POISON), "--to", "17", "--who", "eva\x1b[2J", "--json")
    assert done.returncode == 0, done.stderr
    (repair,) = asyncio.run(place.look()).repairs
    assert json.loads(done.stdout) == asdict(repair)
    shown = tenure_fence("show", target)
    assert f"17  {fence}\n" in shown.stdout
    assert f" lowered {fence} from {POISON} to 17: {WHY}\n" in shown.stdout
    assert "\x1b" not in shown.stdout
    page = json.loads(tenure_fence("show", target, "--json").stdout)
    assert page["highest"][fence] == 17
    assert asdict(repair) in page["repairs"]
    assert not secret or secret not in done.stdout + done.stderr + shown.stdout + shown.stderr
