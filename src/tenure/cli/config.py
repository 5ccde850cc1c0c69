"""``tenure config``: settings that anybody proposes and the leader applies."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tenure.apps.config.config import EVERY_S, Config
from tenure.apps.config.state import EDITION_BYTES_MAX, Edition, Outdated, State, parse, plain
from tenure.apps.run.voice import Voice
from tenure.cli.config_leader import Leader, check
from tenure.cli.output import shown
from tenure.cli.reading import is_there
from tenure.cli.settings import DURATION, settings_of, store_options, timing_options
from tenure.errors import ConfigError
from tenure.office.names import check_name
from tenure.office.opened import open_store

F = TypeVar("F", bound=Callable[..., Any])
Work = Callable[[Config], Coroutine[Any, Any, int]]

NOT_DONE: Final = 1
NOT_IN_TIME: Final = 75  # EX_TEMPFAIL of sysexits.h
_TEXT_BYTES_MAX: Final = EDITION_BYTES_MAX * 8  # Spaces between its parts count for nothing.
_HELP: Final = {"help_option_names": ["-h", "--help"]}
EXIT_CODES: Final = """\b
Exit codes:
  0   done
  1   another edition came first, the proposal was withdrawn, or there is no such edition
  2   bad input: what is not JSON, a version that is not kept
  69  the store could not be reached, or refused
  75  it was not applied within --wait
  128+n  of serve: stopped by signal n
"""


@click.group(context_settings=_HELP, epilog=EXIT_CODES)
def command() -> None:
    """Settings that anybody proposes, the leader applies, and all can follow.

    A configuration is a JSON document in the store. Each edition has a number. Of two who propose at once one wins, and the other is told what
    there is now.

    \b
    Examples:
      tenure config propose limits limits.json
      tenure config serve limits -- ./roll-out.sh
      tenure config get limits
      tenure config history limits
      tenure config rollback limits 3 --wait 30s
    """


def _options(function: F) -> F:
    for add in (
        click.option("--json", "as_json", is_flag=True, help="Print objects, one a line."),
        store_options,
        click.argument("name"),
    ):
        function = add(function)
    return function


_seen = click.option(
    "--seen", type=int, metavar="VERSION", help="The edition that you have seen.  [default: the one that is applied]"
)
_wait = click.option(
    "--wait", "wait_s", type=DURATION, help="Wait until it is applied, at most this long; then exit with 75."
)


@command.command(context_settings=_HELP)
@_options
@click.option("--version", type=int, help="This edition.  [default: the one that is applied]")
def get(*, name: str, version: int | None, as_json: bool, **store: Any) -> int:
    """Print what is applied now, or an earlier edition.

    \b
    Examples:
      tenure config get limits
      tenure config get limits --version 3
    """

    async def work(config: Config) -> int:
        state = await config.state()
        found = state.applied if version is None else state.edition(version)
        if found is None:
            what = "nothing was applied yet" if version is None else f"version {version} is not kept"
            return _told(name, what)
        click.echo(json.dumps(plain(found)) if as_json else json.dumps(found.value, indent=2, ensure_ascii=False))
        return 0

    return _at_work(name, work, reading=True, **store)


@command.command(context_settings=_HELP)
@_options
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@_seen
@_wait
def propose(*, name: str, file: Path, seen: int | None, wait_s: float | None, as_json: bool, **store: Any) -> int:
    """Propose the JSON document in FILE (-: standard input). The leader applies it.

    \b
    Examples:
      tenure config propose limits limits.json --wait 30s
      jq '.rate = 7' limits.json | tenure config propose limits - --seen 4
    """
    value = parse(_content(file), f"document {file}")
    return _at_work(name, lambda config: _proposed(config, config.propose(value, seen=seen), wait_s, as_json), **store)


@command.command(context_settings=_HELP)
@_options
@click.argument("version", type=int)
@_seen
@_wait
def rollback(*, name: str, version: int, seen: int | None, wait_s: float | None, as_json: bool, **store: Any) -> int:
    """Propose what VERSION said, as a new edition.

    \b
    Examples:
      tenure config rollback limits 3 --wait 30s
    """
    return _at_work(
        name, lambda config: _proposed(config, config.roll_back(version, seen=seen), wait_s, as_json), **store
    )


@command.command(context_settings=_HELP)
@_options
@click.option("--why", default="", help="What to tell those who wait for it.")
def withdraw(*, name: str, why: str, as_json: bool, **store: Any) -> int:
    """Take back what is proposed.

    \b
    Examples:
      tenure config withdraw limits --why 'too low'
    """

    async def work(config: Config) -> int:
        proposal = (await config.state()).proposed
        if proposal is None:
            return _told(name, "nothing is proposed")
        await config.withdraw(proposal.version, why)
        _tell(config.name, "withdrawn", proposal, as_json=as_json)
        return 0

    return _at_work(name, work, **store)


@command.command(context_settings=_HELP)
@_options
def history(*, name: str, as_json: bool, **store: Any) -> int:
    """List the editions that are kept, oldest first.

    \b
    Examples:
      tenure config history limits
      tenure config history limits --json | jq .value
    """

    async def work(config: Config) -> int:
        for what, edition in _editions(await config.state()):
            _tell(config.name, what, edition, as_json=as_json)
        return 0

    return _at_work(name, work, reading=True, **store)


@command.command(context_settings=_HELP)
@_options
@click.option("--for", "for_s", type=DURATION, help="End after this time.  [default: at Ctrl-C]")
def watch(*, name: str, for_s: float | None, as_json: bool, **store: Any) -> int:
    """Tell what is applied, and every change: a line each. Looks about once a second.

    \b
    Examples:
      tenure config watch limits
      tenure config watch limits --json | while read -r line; do reload "$line"; done
    """

    async def work(config: Config) -> int:
        told: tuple[Edition | None, Edition | None] = (None, None)
        with suppress(TimeoutError):
            async with asyncio.timeout(for_s), aclosing(config.watch()) as looks:
                async for state in looks:
                    for what, old, new in zip(
                        ("proposed", "applied"), told, (state.proposed, state.applied), strict=True
                    ):
                        if new is not None and new != old:
                            _tell(config.name, what, new, as_json=as_json)
                    told = state.proposed, state.applied
        return 0

    try:
        return _at_work(name, work, reading=True, **store)
    except KeyboardInterrupt:
        return 130  # This is how it is meant to end, so there is nothing to say.


@command.command(context_settings=_HELP)
@_options
@timing_options
@click.option("--election", help="The office to stand for.  [default: config/NAME]")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def serve(  # noqa: PLR0913  (click hands every option in)
    *,
    name: str,
    command: tuple[str, ...],
    election: str | None,
    ttl: float | None,
    grace: float | None,
    as_json: bool,
    **store: Any,
) -> int:
    """Lead: apply what is proposed, each once COMMAND has carried it out.

    Start it on several machines: one leads. COMMAND gets the document on its standard input, its number in TENURE_CONFIG_VERSION, and TENURE_ELECTION, TENURE_TOKEN,
    TENURE_FENCE, TENURE_HOLDER and TENURE_STORE. If it fails, the proposal is withdrawn with the end of its standard error. When it ends, so does what is left of its process group; when the office is lost, that gets TERM, then KILL before anybody else can take office.
    It may be called again for an edition whose leader died. Without a command each proposal is applied at once.

    \b
    Examples:
      tenure config serve limits
      tenure config serve limits -- ./roll-out.sh
    """
    settings = settings_of(ttl=ttl, grace=grace, **store)
    office = check_name(election or f"config/{name}")

    def told(what: str, edition: Edition) -> None:
        _tell(name, what, edition, as_json=as_json)

    async def work(config: Config) -> int:
        voice = Voice(quiet=False, as_json=as_json)
        return await Leader(command, settings.timing, voice, told).lead(config, office)

    check(command)
    return _at_work(name, work, **store)


def _at_work(name: str, work: Work, *, reading: bool = False, **store: Any) -> int:
    settings = settings_of(**store, reading=reading)
    check_name(name, "config")
    if reading and not is_there(settings):
        return _told(name, "nothing was applied yet")

    async def main() -> int:
        async with open_store(settings.store, accept_best_effort=settings.accept_best_effort) as opened:
            return await work(Config(opened, name))

    try:
        return asyncio.run(main())
    except Outdated as outdated:
        click.echo(json.dumps(plain(outdated.state), ensure_ascii=False))
        return _told(name, str(outdated))


async def _proposed(
    config: Config, proposing: Coroutine[Any, Any, Edition], wait_s: float | None, as_json: bool
) -> int:
    edition = await proposing
    _tell(config.name, "proposed", edition, as_json=as_json)
    if wait_s is None:
        return 0
    try:
        async with asyncio.timeout(wait_s), aclosing(config.watch(EVERY_S / 4)) as looks:
            async for state in looks:
                if (done := state.edition(edition.version)) is not None and done != state.proposed:
                    _tell(config.name, "applied", done, as_json=as_json)
                    return 0
                if state.proposed is None or state.proposed.version != edition.version:
                    why = state.withdrawn.get(str(edition.version)) or "nobody said why"
                    return _told(config.name, f"version {edition.version} was withdrawn: {shown(why)}")
    except TimeoutError:
        pass
    return _told(config.name, f"version {edition.version} was not applied within {wait_s:g} s", NOT_IN_TIME)


def _content(file: Path) -> bytes:
    """Return what is in a file, as far as an edition may be long."""
    if str(file) == "-" and sys.stdin is None:
        raise ConfigError("FILE", file, "cannot be read: standard input is closed")
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as opened:
            text = opened.read(_TEXT_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError("FILE", file, f"cannot be read: {error.strerror}") from None
    if len(text) > _TEXT_BYTES_MAX:
        rule = f"must have at most that, and {EDITION_BYTES_MAX} without its spaces: keep what is large elsewhere, and here where it is"
        raise ConfigError(f"document {file}", f"more than {_TEXT_BYTES_MAX} bytes", rule)
    return text


def _editions(state: State) -> list[tuple[str, Edition]]:
    found = [("replaced", one) for one in state.history]
    found += [("applied", state.applied)] if state.applied is not None else []
    return [*found, *([("proposed", state.proposed)] if state.proposed is not None else [])]


def _tell(name: str, what: str, edition: Edition, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"config": name, "state": what, **plain(edition)}))
        return
    token = "" if edition.token is None else f", token {edition.token}"
    click.echo(f"{what:<9} {edition.version}  {shown(edition.at)} by {shown(edition.by)}{token}")


def _told(name: str, what: str, code: int = NOT_DONE) -> int:
    click.echo(f"tenure config: {name}: {what}" if name not in what else f"tenure config: {what}", err=True)
    return code
