"""``tenure plan``: whether a failover fits an RTO, and what a shorter timeout costs."""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tenure.cli.completion import election_names
from tenure.cli.output import is_terminal
from tenure.cli.plan_input import Collected, cost_of, disturbed_by, ops_of, pair_of, target_of
from tenure.cli.plan_picture import ASCII, BLOCKS
from tenure.cli.plan_showing import asked_besides, shown, verdict
from tenure.cli.settings import DURATION, Settings, settings_of, store_options
from tenure.errors import ConfigError
from tenure.plan.engines import Shipped, shipped
from tenure.plan.load import OP_COST_S, Load, check_cost
from tenure.plan.profiles import ASSUMED_TRIPS, DEFAULT, PROFILES
from tenure.plan.quorum import Quorum, Regions
from tenure.plan.whole import Plan, planned, timing_of
from tenure.timing import DEFAULT_MISSES

if TYPE_CHECKING:
    from tenure.timing import Timing

_DOES_NOT_FIT: Final = 1
_WIDTH_MAX: Final = 100
_CHARTS: Final = (".svg", ".png")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@store_options
@click.option("--connect", is_flag=True, help="Ask the store what it promises, instead of knowing it by its name.")
@click.option("--fenced", is_flag=True, help="The leader writes through sinks: Consul then needs no lock-delay.")
@click.option("-H", "--heartbeat", type=DURATION, help="H: how often a lease is renewed.  [default: L / (N + 1)]")
@click.option(
    "-N",
    "--misses",
    type=int,
    default=DEFAULT_MISSES,
    show_default=True,
    metavar="N",
    help="N: how many heartbeats may be missed.",
)
@click.option(
    "-L", "--ttl", type=DURATION, help="L: how long a lease lasts.  [default: (N + 1) x H, or 8s; in Consul 10s]"
)
@click.option(
    "--grace", type=DURATION, help="How long before the end of its validity a leader stops.  [default: H / 2]"
)
@click.option("--rto", "rto_s", type=DURATION, default="30s", show_default=True, help="In what time work must go on.")
@click.option("--elect", "elect_s", type=DURATION, default="1s", show_default=True, help="To claim and to seal.")
@click.option("--load", "load_s", type=DURATION, default="2s", show_default=True, help="To read what is decided by.")
@click.option("--warm", "warm_s", type=DURATION, default="13s", show_default=True, help="To fill caches.")
@click.option(
    "--discover", "discover_s", type=DURATION, default="5s", show_default=True, help="To be found by clients."
)
@click.option("--warm-standby", is_flag=True, help="Standbys have loaded and warmed before: --load 0 --warm 0.")
@click.option(
    "--profile", metavar="NAME", help=f"Pauses and round trips of {', '.join(PROFILES)}.  [default: {DEFAULT}]"
)
@click.option(
    "--pauses",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A log of pauses: a JVM's, Go's gctrace, or a duration a line.",
)
@click.option(
    "--pauses-over",
    "over_s",
    type=DURATION,
    help="Over what time they were collected.  [default: as their instants say]",
)
@click.option(
    "--outages",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A log of when the store could not be reached: a duration a line.",
)
@click.option("--outages-over", "outages_over_s", type=DURATION, help="Over what time these were collected.")
@click.option(
    "--rtts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Round trips to the store: of ping, or a duration a line.",
)
@click.option("--unit", default="s", show_default=True, metavar="UNIT", help="The unit of bare numbers in these files.")
@click.option("--target", metavar="RATE", help="False failovers that will do, e.g. 1/30d: recommends H, N and L.")
@click.option("--members", type=int, metavar="N", help="How many members the engine has, or should have.")
@click.option(
    "--rtt", "rtts_between", multiple=True, metavar="A-B=TIME", help="A round trip between two regions; for each two."
)
@click.option("--ops", metavar="RATE", help="Operations that need the leader, e.g. 5000/s: says when to shard.")
@click.option(
    "--op-cost",
    "op_cost_s",
    default=f"{OP_COST_S * 1e3:g}ms",
    metavar="TIME",
    show_default=True,
    help="What one of them takes.",
)
@click.option(
    "--check",
    "election",
    metavar="ELECTION",
    shell_complete=election_names,
    help="Compare with the changes of leader that are recorded.",
)
@click.option("--chart", type=click.Path(path_type=Path), metavar="FILE", help="Draw it into a .svg or .png file.")
@click.option("--json", "as_json", is_flag=True, help="Print one object, with durations in seconds and rates a day.")
def command(**given: Any) -> int:
    """Say whether a failover fits an RTO, which number to change if not, and what a shorter timeout costs.

    Nothing is connected to, unless by --connect or --check. Exit code 1 says that it does not fit, that --target is missed,
    or that --check found a change of leader that took longer than planned.

    \b
    Examples:
      tenure plan
      tenure plan -H 500ms -N 3 --rto 10s --warm-standby
      tenure plan --store consul://127.0.0.1:8500 --fenced
      tenure plan --pauses gc.log --pauses-over 24h --target 1/30d
      tenure plan --members 5 --rtt eu-us=80ms --rtt eu-ap=180ms --rtt us-ap=150ms
      tenure plan --ops 5000/s --op-cost 400us
      tenure plan --check billing/close
      tenure plan --chart failover.svg
    """
    chart: Path | None = given["chart"]
    if chart is not None and chart.suffix.lower() not in _CHARTS:
        raise ConfigError("--chart", chart, f"must end in {' or '.join(_CHARTS)}")
    settings = _settings(given)
    plan = _planned(given, settings)
    if chart is not None:
        _draw(plan, chart)
    checked = None
    if given["election"] is not None:
        from tenure.cli.plan_check import check  # noqa: PLC0415  (only this one asks a store)

        checked = check(plan, given["election"], settings)
    if given["as_json"]:
        click.echo(json.dumps(plan.as_json() | ({} if checked is None else {"check": checked.as_json()})))
    elif checked is not None:
        click.echo("\n".join([verdict(plan), *asked_besides(plan), "", *checked.lines()]))
    else:
        click.echo("\n".join(_lines(plan)))
    return 0 if plan.fits and (checked is None or checked.kept) else _DOES_NOT_FIT


def _settings(given: dict[str, Any]) -> Settings:
    return settings_of(
        store=given["store"],
        config=given["config"],
        accept_best_effort=given["accept_best_effort"],
        reading=True,
    )


def _planned(given: dict[str, Any], settings: Settings) -> Plan:
    is_warm: bool = given["warm_standby"]
    disturbed = disturbed_by(
        profile=given["profile"],
        pauses=Collected("--pauses", given["pauses"], given["over_s"]),
        outages=Collected("--outages", given["outages"], given["outages_over_s"]),
        rtts=given["rtts"],
        unit=given["unit"],
    )
    pairs = [pair_of(text) for text in given["rtts_between"]]
    if not pairs and given["profile"] == "cross-region":
        pairs = list(ASSUMED_TRIPS)
    cost_s = cost_of(given["op_cost_s"])
    check_cost(cost_s)  # Also where nobody asks for the load: a slip of a key that says nothing today is one tomorrow.
    return planned(
        _timing(given, settings),
        engine=_engine(given, settings),
        elect_s=given["elect_s"],
        load_s=0.0 if is_warm else given["load_s"],
        warm_s=0.0 if is_warm else given["warm_s"],
        discover_s=given["discover_s"],
        rto_s=given["rto_s"],
        disturbed=disturbed,
        target_per_day=None if given["target"] is None else target_of(given["target"]),
        quorum=None if given["members"] is None else Quorum(given["members"]),
        regions=Regions.of(pairs) if pairs else None,
        load=None if given["ops"] is None else Load(ops_of(given["ops"]), cost_s),
    )


def _timing(given: dict[str, Any], settings: Settings) -> "Timing":
    """The lease that was settled for this store, unless a heartbeat was given: then what follows from that."""
    ttl_s: float | None = given["ttl"]
    if ttl_s is None and given["heartbeat"] is None:
        ttl_s = settings.timing.ttl_ns / 1e9
    return timing_of(given["heartbeat"], given["misses"], ttl_s, given["grace"])


def _engine(given: dict[str, Any], settings: Settings) -> Shipped | None:
    if not settings.store_is_given:
        return None  # Nobody has said which: the plan is for one that ends a lease with its ttl.
    known = shipped(settings.store, fenced=given["fenced"])
    if not given["connect"]:
        return known
    from tenure.cli.reading import reading  # noqa: PLC0415  (only this one asks a store)

    with reading(settings) as opened:
        assert opened is not None, "it was named, so it is there"
        return replace(known, traits=opened.store.traits)


def _lines(plan: Plan) -> list[str]:
    can_draw = "utf" in (sys.stdout.encoding or "").lower()
    width = min(_WIDTH_MAX, shutil.get_terminal_size((80, 24)).columns)
    lines = list(shown(plan, width, BLOCKS if can_draw else ASCII))
    if is_terminal() and not os.environ.get("NO_COLOR"):
        told = verdict(plan)
        colour = "green" if plan.fitting.spare_s >= 0 else "red"
        lines = [click.style(line, fg=colour, bold=True) if line == told else line for line in lines]
    return lines


def _draw(plan: Plan, file: Path) -> None:
    from tenure.plan.charts import picture  # noqa: PLC0415  (only a chart pays for it)
    from tenure.plan.png import png  # noqa: PLC0415
    from tenure.plan.svg import svg  # noqa: PLC0415

    drawing = picture(
        plan.budget,
        plan.rto_s,
        plan.timing.renew_every_ns / 1e9,
        points=plan.points,
        chosen=plan.chosen,
        assumed=plan.disturbed.source,
    )
    content = svg(drawing).encode() if file.suffix.lower() == ".svg" else png(drawing)
    try:
        file.write_bytes(content)
    except (OSError, ValueError) as error:
        raise ConfigError("--chart", file, f"cannot be written: {getattr(error, 'strerror', None) or error}") from None
