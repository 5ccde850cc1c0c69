"""``tenure serve``: elections over HTTP, for load balancers, any language, and people."""

import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tenure.cli.completion import election_names
from tenure.cli.settings import DURATION, settings_of, store_options, timing_options
from tenure.errors import ConfigError
from tenure.office.desk import check_advertise, check_name
from tenure.office.opened import LoopStore, open_store

if TYPE_CHECKING:
    from tenure.serve.listening import Place
    from tenure.serve.setup import Setup

_NEEDS: Final = ("starlette", "uvicorn", "prometheus_client")
_LISTEN: Final = "127.0.0.1:8087"
_RATE_MAX: Final = 1e6


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@store_options
@timing_options
@click.option(
    "--listen", default=_LISTEN, show_default=True, metavar="HOST:PORT", help="Where to listen; or unix:/path."
)
@click.option(
    "--stand",
    multiple=True,
    metavar="ELECTION",
    shell_complete=election_names,
    help="Stand in this election for the service beside the sidecar; again for more.",
)
@click.option("--advertise", default="", metavar="URL", help="Where that service can be reached, for others to read.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Let who sends a token of this file write.  [default: read-only]",
)
@click.option("--read-only", is_flag=True, help="Let nobody write, whatever they send.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="Answer under this name as well; again for more.")
@click.option("--rate", default=200.0, show_default=True, help="Requests a second from one address, probes aside.")
@click.option("--drain", type=DURATION, default="5s", show_default=True, help="Wait so long for clients in leaving.")
@click.option(
    "--history/--no-history", default=None, help="Record who led when, for tenure history.  [default: --history]"
)
@click.option("--instance", default="", metavar="NAME", help="What the page calls this sidecar.  [default: the host]")
@click.option(
    "--anybody-may-read", is_flag=True, help="Listen on an address that others can reach although there is no token."
)
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    store: str | None,
    config: Path | None,
    accept_best_effort: bool | None,
    ttl: float | None,
    grace: float | None,
    listen: str,
    stand: tuple[str, ...],
    advertise: str,
    token_file: Path | None,
    read_only: bool,
    allow_host: tuple[str, ...],
    rate: float,
    drain: float,
    history: bool | None,
    instance: str,
    anybody_may_read: bool,
) -> None:
    """Serve elections over HTTP.

    Load balancers ask /leader/ELECTION, which is 200 where the office is held and 503 elsewhere. Programs in any language
    stand, lead, lock and watch under /v1, and people open the page at /. What writes needs a token.

    \b
    Examples:
      tenure serve
      tenure serve --stand billing --advertise http://10.0.0.5:8080
      tenure serve --listen unix:/run/tenure.sock --token-file /etc/tenure/token
    """
    check_installed()
    settings = settings_of(
        store=store, config=config, ttl=ttl, grace=grace, accept_best_effort=accept_best_effort, history=history
    )
    from tenure.serve.listening import place_of  # noqa: PLC0415  (it and what follows need the extra)
    from tenure.serve.setup import Setup, tokens_in  # noqa: PLC0415

    if not 1 <= rate <= _RATE_MAX:
        raise ConfigError("--rate", f"{rate:g}", f"must lie between 1 and {_RATE_MAX:g} requests a second")
    place = place_of(listen)
    setup = Setup(
        timing=settings.timing,
        stand=tuple(dict.fromkeys(check_name(name, "--stand") for name in stand)),
        advertise=check_advertise(advertise),
        tokens=() if token_file is None else tokens_in(token_file),
        read_only=read_only,
        allow_hosts=(*allow_host, place.host),
        check_host=not place.path,
        rate_per_s=rate,
        drain_s=drain,
        instance=instance or socket.gethostname(),
        history=settings.history,
    )
    if not place.is_private and not setup.tokens and not anybody_may_read:
        rule = "can be reached from other machines: give a --token-file, or say --anybody-may-read"
        raise ConfigError("--listen", listen, rule)
    _serve(open_store(settings.store, accept_best_effort=settings.accept_best_effort), setup, place)


def check_installed() -> None:
    """Return if what a sidecar needs is there; raises ConfigError, with the command that installs it."""
    for name in _NEEDS:
        if find_spec(name) is None:
            raise ConfigError("serve", name, "is not installed: pip install 'tenure[serve]'")


def _serve(opened: LoopStore, setup: "Setup", place: "Place") -> None:
    import asyncio  # noqa: PLC0415  (it takes long to import)

    from tenure.serve.running import serve  # noqa: PLC0415

    asyncio.run(serve(opened, setup, place, _say))


def _say(place: "Place") -> None:
    click.echo(f"tenure serve: listening on {place}", err=True)
