"""The arithmetic of failover: how long one takes, what a shorter timeout costs, and which numbers fit. Pure.

``budget`` and ``fitting`` are the time without a leader against an RTO; ``delays``, ``profiles`` and ``pauselog`` say how often a
process stands still, ``rate`` how many leaders that live are deposed for it, and ``targets`` which numbers keep that rare.
``quorum``, ``regions`` and ``load`` are about the engine and the work; ``engines`` knows what each engine promises as shipped.
``charts`` are pictures of it all, which ``svg`` and ``png`` write.
"""

from tenure.plan.budget import RTO_S as RTO_S
from tenure.plan.budget import Budget as Budget
