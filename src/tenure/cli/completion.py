"""``tenure completion``: the script for a shell, and the names that it completes."""

import io
import re
from collections.abc import Iterable
from contextlib import redirect_stderr, suppress
from typing import Any, Final

import click

from tenure.errors import TenureError

# A person has pressed a key and waits. Starting Python takes half of what is felt as a pause already.
_NAMES_WITHIN_S: Final = 0.5

# Others choose the names of elections, and a shell expands what it is offered: x/$(reboot) would be carried out. One that
# begins with a dash would be taken for an option.
_HARMLESS: Final = re.compile(r"[\w./:@%+=,][\w./:@%+=,-]*")

_INSTALL: Final = {
    "bash": 'add to ~/.bashrc:   eval "$(tenure completion bash)"',
    "zsh": 'add to ~/.zshrc:   eval "$(tenure completion zsh)"',
    "fish": "run once:   tenure completion fish > ~/.config/fish/completions/tenure.fish",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def command(ctx: click.Context, *, shell: str) -> None:
    """Print the completion script of a shell: commands, options, and the elections of the store.

    \b
    Examples:
      eval "$(tenure completion bash)"        in ~/.bashrc
      eval "$(tenure completion zsh)"         in ~/.zshrc
      tenure completion fish > ~/.config/fish/completions/tenure.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class  # noqa: PLC0415

    kind = get_completion_class(shell)
    assert kind is not None, shell
    completion = kind(ctx.find_root().command, {}, "tenure", "_TENURE_COMPLETE")
    # Not ``completion.source()``, which for bash looks for the one of this machine and complains if there is none.
    click.echo(f"{ShellComplete.source(completion).strip()}\n# To install it, {_INSTALL[shell]}")


def election_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the elections that begin like ``incomplete``, for a completion: soon, or none, and without a word."""
    with suppress(TenureError, OSError), redirect_stderr(io.StringIO()):
        found = _elections(**{name: ctx.params.get(name) for name in ("store", "config", "accept_best_effort")})
        return [name for name in found if name.startswith(incomplete) and _HARMLESS.fullmatch(name)]
    return []


def _elections(*, store: str | None, config: Any, accept_best_effort: bool | None) -> Iterable[str]:
    from tenure.cli.reading import is_unmade  # noqa: PLC0415  (the script itself needs no office)
    from tenure.cli.settings import settings_of  # noqa: PLC0415
    from tenure.office.thread import Office  # noqa: PLC0415
    from tenure.stores.base import CanList  # noqa: PLC0415
    from tenure.stores.opening import make_store  # noqa: PLC0415

    settings = settings_of(store=store, config=config, accept_best_effort=accept_best_effort, reading=True)
    url = settings.store
    unopened = make_store(url, {}, accept_best_effort=settings.accept_best_effort)

    async def names() -> list[str]:
        async with unopened as opened:
            return [status.election for status in await opened.elections()]

    if is_unmade(url) or not isinstance(unopened, CanList):
        return []
    future = Office.of_this_process().submit(names())
    try:
        return future.result(_NAMES_WITHIN_S)
    finally:
        future.cancel()  # Does nothing to one that is done.
