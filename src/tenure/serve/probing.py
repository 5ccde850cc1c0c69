"""For load balancers: whether this sidecar leads, stands by, lives, and can do so. None of these asks the engine."""

from typing import Any, Final

from tenure.errors import ConfigError
from tenure.model import Incumbent
from tenure.serve.answers import encoded
from tenure.serve.routes import Call, Reply, told
from tenure.sinks.http.stamp import origin_of
from tenure.web.leader import LEADER

_ADDRESS_MAX: Final = 1024


async def leader(call: Call) -> Reply:
    """200 while this sidecar holds the office."""
    election = call.path["election"]
    held = call.sidecar.register.offices.held(election)
    if held is not None:
        # Judged at the last instant: it may have been frozen up to here.
        return Reply(200, b'{"leading":true,"token":%d}\n' % held.token)
    call.sidecar.check_known(election)
    return _elsewhere(call, election)


async def standby(call: Call) -> Reply:
    """200 while this sidecar stands for the election and another holds the office."""
    election, sidecar = call.path["election"], call.sidecar
    if sidecar.register.offices.held(election) is None and (
        sidecar.stands.stands(election) or sidecar.register.stands(election)
    ):
        return told({"standing": True, **seen(call, election)})
    sidecar.check_known(election)
    return told({"standing": False, **seen(call, election)}, 503)


async def health(_: Call) -> Reply:
    """200 as long as anything is answered at all."""
    return Reply(200, b'{"healthy":true}\n')


async def ready(call: Call) -> Reply:
    """200 if the store has answered lately."""
    sidecar = call.sidecar
    trouble = "this sidecar is being stopped" if sidecar.leaving else sidecar.view.trouble
    for name, error in sidecar.stands.troubles.items():
        trouble = f"{name}: {error}"
    good = sidecar.ready and not sidecar.stands.troubles
    shown = {"ready": good, "seen_s_ago": sidecar.view.age_s, "trouble": trouble or None}
    return told(shown, 200 if good else 503)


def seen(call: Call, election: str) -> dict[str, Any]:
    """Return who leads, as last seen."""
    status = call.sidecar.view.statuses.get(election)
    incumbent = None if status is None else status.incumbent
    return {"election": election, "leader": shown_incumbent(incumbent), "seen_s_ago": call.sidecar.view.age_s}


def shown_incumbent(incumbent: Incumbent | None) -> dict[str, Any] | None:
    """Return who holds an office as JSON has it."""
    if incumbent is None:
        return None
    holder = incumbent.holder
    return {
        "holder": str(holder),
        "host": holder.host,
        "pid": holder.pid,
        "token": incumbent.token,
        "advertised": incumbent.advertised or None,
    }


def _elsewhere(call: Call, election: str) -> Reply:
    status = call.sidecar.view.statuses.get(election)
    incumbent = None if status is None else status.incumbent
    address = "" if incumbent is None else incumbent.advertised
    headers = {LEADER: address} if _may_be_header(address) else {}
    return Reply(503, encoded({"leading": False, **seen(call, election)}), headers)


def _may_be_header(address: str) -> bool:
    """Whether an address, which somebody else wrote, may be a header that everybody reads."""
    try:
        origin_of(address)
    except ConfigError:
        return False
    return address.isascii() and address.isprintable() and "@" not in address and " " not in address
