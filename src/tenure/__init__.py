"""Leader election and failover that is safe: only one leader's writes are accepted.

You cannot guarantee that only one node believes it is leader. You can guarantee that only one leader's writes are
accepted: every tenure has a token that strictly rises, and every sink refuses a token older than one it has seen.

What this package exports is the list below. Names are imported when they are first used, so that ``import tenure``
and ``tenure --help`` stay quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure import errors as errors
    from tenure import facts as facts
    from tenure import sinks as sinks
    from tenure import sync as sync
    from tenure import testing as testing
    from tenure.clock import BootClock as BootClock
    from tenure.clock import Clock as Clock
    from tenure.clock import VirtualClock as VirtualClock
    from tenure.election import Election as Election
    from tenure.errors import ClockError as ClockError
    from tenure.errors import ConfigError as ConfigError
    from tenure.errors import Contended as Contended
    from tenure.errors import OutcomeUnknown as OutcomeUnknown
    from tenure.errors import Overstay as Overstay
    from tenure.errors import Reason as Reason
    from tenure.errors import Refused as Refused
    from tenure.errors import StaleToken as StaleToken
    from tenure.errors import StoreError as StoreError
    from tenure.errors import TenureError as TenureError
    from tenure.errors import TenureOver as TenureOver
    from tenure.errors import Unreachable as Unreachable
    from tenure.errors import UnverifiedToken as UnverifiedToken
    from tenure.facts import Subscription as Subscription
    from tenure.facts import subscribe as subscribe
    from tenure.facts.kinds import Fact as Fact
    from tenure.lock import Lock as Lock
    from tenure.model import Bid as Bid
    from tenure.model import Document as Document
    from tenure.model import Ended as Ended
    from tenure.model import Grant as Grant
    from tenure.model import Holder as Holder
    from tenure.model import Incumbent as Incumbent
    from tenure.model import Token as Token
    from tenure.model import Wait as Wait
    from tenure.office.granted import granted_by as granted_by
    from tenure.office.opened import open_store as open_store
    from tenure.office.tenure import Tenure as Tenure
    from tenure.office.warm_loop import Standby as Standby
    from tenure.sinks import guard as guard
    from tenure.stores.base import Store as Store
    from tenure.stores.base import Traits as Traits
    from tenure.stores.memory import MemoryStore as MemoryStore
    from tenure.timing import Timing as Timing

__version__ = "0.1.0.dev0"

# Name → module that defines it; a module of its own stands for itself.
EXPORTS = {
    "BootClock": "clock",
    "Clock": "clock",
    "VirtualClock": "clock",
    "ClockError": "errors",
    "ConfigError": "errors",
    "Contended": "errors",
    "OutcomeUnknown": "errors",
    "Overstay": "errors",
    "Reason": "errors",
    "Refused": "errors",
    "StaleToken": "errors",
    "StoreError": "errors",
    "TenureError": "errors",
    "TenureOver": "errors",
    "Unreachable": "errors",
    "UnverifiedToken": "errors",
    "Fact": "facts.kinds",
    "Subscription": "facts",
    "subscribe": "facts",
    "Bid": "model",
    "Document": "model",
    "Ended": "model",
    "Grant": "model",
    "Holder": "model",
    "Incumbent": "model",
    "Token": "model",
    "Wait": "model",
    "Election": "election",
    "Lock": "lock",
    "Standby": "office.warm_loop",
    "Store": "stores.base",
    "Tenure": "office.tenure",
    "granted_by": "office.granted",
    "open_store": "office.opened",
    "Traits": "stores.base",
    "MemoryStore": "stores.memory",
    "Timing": "timing",
    "errors": "errors",
    "facts": "facts",
    "guard": "sinks",
    "sinks": "sinks",
    "sync": "sync",
    "testing": "testing",
}


def __getattr__(name: str) -> Any:
    home = EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module 'tenure' has no attribute {name!r}")
    module = import_module(f"tenure.{home}")
    value = module if name == home else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTS})
