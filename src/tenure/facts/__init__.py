"""What has happened, and who is told of it: ``kinds`` are the values, ``subscribing`` the way to whoever listens.

The log (``log``) listens from the start, as one among equals.
"""

from tenure.facts import log as log
from tenure.facts.subscribing import Subscription as Subscription
from tenure.facts.subscribing import publish as publish
from tenure.facts.subscribing import subscribe as subscribe
