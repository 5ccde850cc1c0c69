"""``tenure fence``: what makes an engine itself refuse a stale leader, for somebody with the rights to install it."""

import re
from typing import Final

import click

from tenure.clients.kubernetes.resources import resource_of
from tenure.errors import ConfigError
from tenure.sinks.kubernetes_policy import policy
from tenure.stores.kubernetes.names import check_name

_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Print what makes an engine itself refuse a stale leader.

    \b
    Examples:
      tenure fence kubernetes configmaps/books --namespace prod | kubectl apply -f -
    """


@command.command()
@click.argument("resources", nargs=-1, required=True, metavar="RESOURCE…")
@click.option("--namespace", default="default", show_default=True, help="Where the objects are.")
@click.option("--election", help="Compare with this election's Lease as well.")
def kubernetes(*, resources: tuple[str, ...], namespace: str, election: str | None) -> None:
    """Print an admission policy that refuses writes whose token is older than the object's.

    RESOURCE is one as kubectl names it: deployments.apps for all deployments that carry a token, deployments.apps/web for
    one. Who writes says its token as the field manager, tenure:TOKEN, and in the annotation tenure/token.

    \b
    Examples:
      tenure fence kubernetes configmaps/books --namespace prod | kubectl apply -f -
      tenure fence kubernetes deployments.apps statefulsets.apps --election billing/close
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise ConfigError("--namespace", namespace, "must have up to 63 small letters, digits and dashes")
    lease = None if election is None else check_name("tenure fence", "--election", election)
    click.echo("---\n".join(policy(resource_of(resource), namespace, lease) for resource in resources), nl=False)
