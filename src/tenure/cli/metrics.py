"""``tenure metrics``: what goes with the metrics of elections: their names, alert rules, a dashboard."""

import json
from pathlib import Path

import click

from tenure.cli.output import aligned
from tenure.errors import ConfigError
from tenure.metrics.alerts import rules as alert_rules
from tenure.metrics.catalogue import METRICS, Metric
from tenure.metrics.grafana import dashboard

_HELP = {"help_option_names": ["-h", "--help"]}
_OUTPUT = click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file and not to the terminal.",
)


@click.group(context_settings=_HELP)
def command() -> None:
    """Print what goes with the metrics of elections: their names, alert rules for Prometheus, a dashboard for Grafana.

    The metrics themselves are shown by tenure serve, and by programs that subscribe tenure.metrics.Prometheus.

    \b
    Examples:
      tenure metrics list
      tenure metrics rules --output /etc/prometheus/rules/tenure.yml
      tenure metrics grafana --output elections.json
    """


@command.command("list", context_settings=_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def list_(*, as_json: bool) -> None:
    """Print which metrics there are, with their labels and what they mean.

    \b
    Examples:
      tenure metrics list
      tenure metrics list --json | jq -r '.metrics[] | select(.type == "histogram") | .name'
    """
    if as_json:
        click.echo(json.dumps({"metrics": [_object(metric) for metric in METRICS]}))
        return
    rows = [(_name(metric), metric.kind.value, ",".join(metric.labels) or "-", metric.help) for metric in METRICS]
    click.echo(aligned([("METRIC", "TYPE", "LABELS", "MEANING"), *rows]))


@command.command("rules", context_settings=_HELP)
@_OUTPUT
@click.option("--runbooks", metavar="URL", default="", help="Where the pages of the runbooks are served.")
@click.option(
    "--by", metavar="LABEL", multiple=True, help="A label that tells elections of one name apart; repeatable."
)
def rules(*, output: Path | None, runbooks: str, by: tuple[str, ...]) -> None:
    """Print alert rules for Prometheus.

    If one Prometheus sees several clusters, name the label that tells them apart by --by: else two leaders in two clusters
    are taken for two leaders of one election.

    \b
    Examples:
      tenure metrics rules
      tenure metrics rules --output /etc/prometheus/rules/tenure.yml
      tenure metrics rules --by cluster --runbooks https://wiki.example.org/tenure/runbooks
    """
    _write(alert_rules(runbooks, by), output)


@command.command("grafana", context_settings=_HELP)
@_OUTPUT
def grafana(*, output: Path | None) -> None:
    """Print a dashboard for Grafana, as JSON to be imported or provisioned.

    \b
    Examples:
      tenure metrics grafana --output /var/lib/grafana/dashboards/elections.json
      tenure metrics grafana | jq -r '.panels[].title'
    """
    _write(json.dumps(dashboard(), indent=2) + "\n", output)


def _name(metric: Metric) -> str:
    return metric.series[0] if len(metric.series) == 1 else metric.name  # A distribution has three.


def _object(metric: Metric) -> dict[str, object]:
    told: dict[str, object] = {
        "name": _name(metric),
        "type": metric.kind.value,
        "labels": metric.labels,
        "help": metric.help,
        "opentelemetry": metric.otel_name,
    }
    return told | ({"buckets": metric.buckets} if metric.buckets else {})


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError("--output", output, f"cannot be written: {error.strerror}") from error
