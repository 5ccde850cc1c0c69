"""What users test with: the store contract, the virtual clock, the script runner.

``await check_store(make)`` checks a store of your own; ``MemoryRig`` is the example of what ``make`` has to give.
Needs no pytest, and runs on asyncio and on trio.
"""

from tenure.clock import VirtualClock
from tenure.testing.memory_rig import MemoryRig
from tenure.testing.rig import ContractBroken, Rig
from tenure.testing.store_contract import CONTRACT, check_promise, check_store

__all__ = ["CONTRACT", "ContractBroken", "MemoryRig", "Rig", "VirtualClock", "check_promise", "check_store"]
