"""Jobs that run when they are due, once, whoever is in office: ``tenure cron``, and ``Cron`` for programs."""

from tenure.apps.cron.jobs import Job, Run
from tenure.apps.cron.schedule import At, Every, Expression
from tenure.apps.cron.scheduler import Cron

__all__ = ["At", "Cron", "Every", "Expression", "Job", "Run"]
