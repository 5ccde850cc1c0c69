"""Who led when: a bounded record of the tenures of an election, kept where the election is, or else on this machine.

``records`` are what holders say of their tenures, ``told`` is what follows from that for people, ``rto`` compares it with a plan.
``notes`` makes records of facts; ``recorder`` writes them, on a thread of its own; ``places`` is where to.
"""

from tenure.apps.history.reading import History as History
from tenure.apps.history.reading import look as look
from tenure.apps.history.reading import read_history as read_history
from tenure.apps.history.recorder import Recorder as Recorder
from tenure.apps.history.recorder import keep as keep
from tenure.apps.history.told import TenureRecord as TenureRecord
