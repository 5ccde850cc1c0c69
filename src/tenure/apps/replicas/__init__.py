"""Who may be the primary of a replica set: positions, and the record of who has every commit that was acknowledged.

The election decides that there is one primary; ``Replicas`` decides who may be it. ``examples/postgresql_primary`` puts both to use.
"""

from tenure.apps.replicas.fitness import Fit, Record, Report, Unfit, fitness
from tenure.apps.replicas.keeping import Replicas

__all__ = ["Fit", "Record", "Replicas", "Report", "Unfit", "fitness"]
