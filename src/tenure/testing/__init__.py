"""What users test with: the contracts of stores and sinks, the virtual clock, the script runner.

``await check_store(make)`` checks a store of your own; ``MemoryRig`` is the example of what ``make`` has to give.
``await check_sink(make)`` does the same for a sink, on a ``SinkRig``. Needs no pytest, and runs on asyncio and on trio.
"""

from tenure.clock import VirtualClock
from tenure.testing.memory_rig import MemoryRig
from tenure.testing.rig import ContractBroken, Rig
from tenure.testing.sink_contract import SINK_CONTRACT, check_sink, check_sink_promise
from tenure.testing.sink_rig import SinkRig
from tenure.testing.store_contract import CONTRACT, RESTARTING, check_promise, check_store

__all__ = [
    "CONTRACT",
    "RESTARTING",
    "SINK_CONTRACT",
    "ContractBroken",
    "MemoryRig",
    "Rig",
    "SinkRig",
    "VirtualClock",
    "check_promise",
    "check_sink",
    "check_sink_promise",
    "check_store",
]
