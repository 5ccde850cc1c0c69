"""``tenure fence``: what makes an engine itself refuse a stale leader, and the fences that there are."""

import re
from typing import Final

import click

from tenure.cli import fence_repair
from tenure.errors import ConfigError, Refused
from tenure.office.desk import check_name as check_election
from tenure.sinks.kubernetes_policy import fenceable, policy
from tenure.stores.kubernetes.names import check_name

_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Print what makes an engine itself refuse a stale leader; look at fences; lower one that was raised by mistake.

    \b
    Examples:
      tenure fence kubernetes configmaps/books --namespace prod | kubectl apply -f -
      tenure fence show /srv/books
    """


command.add_command(fence_repair.show)
command.add_command(fence_repair.lower)


@command.command()
@click.argument("resources", nargs=-1, required=True, metavar="RESOURCE…")
@click.option("--namespace", default="default", show_default=True, help="Where the objects are.")
@click.option("--election", help="Compare with this election's Lease as well.")
def kubernetes(*, resources: tuple[str, ...], namespace: str, election: str | None) -> None:
    """Print an admission policy that refuses writes whose token is older than the object's.

    RESOURCE is a plural with its group: deployments.apps for all deployments that carry a token, deployments.apps/web for
    one, configmaps/books in the core. kubectl api-resources lists them; short names, as kubectl takes them, will not do. Who writes says its token as the field manager, tenure:TOKEN, and in the annotation tenure/token.

    \b
    Examples:
      tenure fence kubernetes configmaps/books --namespace prod | kubectl apply -f -
      tenure fence kubernetes deployments.apps statefulsets.apps --election billing/close
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise ConfigError("--namespace", namespace, "must have up to 63 small letters, digits and dashes")
    lease = None if election is None else _lease(election)
    click.echo("---\n".join(policy(fenceable(resource), namespace, lease) for resource in resources), nl=False)


def _lease(election: str) -> str:
    """Return the name of the election's Lease."""
    try:
        return check_name("", "", check_election(election))
    except Refused as error:  # No store has refused anything: it is what somebody typed.
        raise ConfigError("--election", election, error.detail) from error
