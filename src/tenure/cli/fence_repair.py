"""``tenure fence show`` and ``tenure fence lower``: look at the fences of a place that sinks write to, and mend one."""

import json
from dataclasses import asdict
from typing import Final

import click

from tenure.cli.output import shown
from tenure.sinks.repair import fences_of, lower_fence

_TARGET: Final = click.Path()  # as text, since it may be a URL; and so shells complete the name of a file
_FENCES: Final = click.option("--fences", metavar="PREFIX", help="What the sink was given as fences=, if it was.")


@click.command()
@click.argument("target", type=_TARGET)
@_FENCES
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def show(*, target: str, fences: str | None, as_json: bool) -> None:
    """Print where the fences of TARGET stand, and who lowered one by hand.

    TARGET is a folder that a FileSink or FileMark writes to, the file of a SQLite database with fences, the URL of a server
    as the sink has it (postgresql, mysql, redis, etcd, zookeeper, consul), or s3://bucket/prefix/.

    \b
    Examples:
      tenure fence show /srv/books
      tenure fence show ledger.db --json
      tenure fence show postgresql://owner@db/books
      tenure fence show s3://bucket/books/
    """
    found = fences_of(target, fences=fences)
    if as_json:
        click.echo(json.dumps({"highest": dict(found.highest), "repairs": [asdict(one) for one in found.repairs]}))
        return
    for fence, highest in found.highest.items():
        click.echo(f"{highest}  {shown(fence)}")
    for one in found.repairs:
        click.echo(
            f"{shown(one.when)} {shown(one.who)} lowered {shown(one.fence)} from {one.was} to {one.now}: {shown(one.why)}"
        )


@click.command()
@click.argument("target", type=_TARGET)
@click.argument("fence")
@click.option("--was", type=int, required=True, help="What the fence stands at, exactly; else nothing is changed.")
@click.option("--to", type=int, required=True, help="The last token that the store has really granted.")
@click.option("--why", required=True, help="Why the fence is wrong. It is recorded beside it.")
@click.option("--who", help="Who lowers it.  [default: user@host]")
@_FENCES
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def lower(  # noqa: PLR0913  (click hands every option in)
    *, target: str, fence: str, was: int, to: int, why: str, who: str | None, fences: str | None, as_json: bool
) -> None:
    """Lower FENCE of TARGET, which was raised by mistake, and record who did it when and why.

    A leader's rights are not enough in PostgreSQL and MySQL: connect as who owns the fences. Stop every leader that has a token between the two values first: nothing refuses it afterwards.

    \b
    Examples:
      tenure fence lower ledger.db sqlite:///state.db/books --was 4611686018427387904 --to 17 --why 'forged, see #812'
    """
    repair = lower_fence(target, fence, was=was, to=to, why=why, who=who, fences=fences)
    if as_json:
        click.echo(json.dumps(asdict(repair)))
        return
    click.echo(f"lowered {shown(fence)} from {repair.was} to {repair.now}; {shown(repair.who)} at {repair.when}")
