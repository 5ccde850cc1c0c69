"""A control plane: a leader gives orders under its token, and workers go on with the last ones while there is no leader."""

from tenure.apps.control.channels import Channel, HttpChannel, deliver_to_all
from tenure.apps.control.order import AcceptedOrder, Delivery, Order, Receipt
from tenure.apps.control.worker import Worker, carry_out

__all__ = [
    "AcceptedOrder",
    "Channel",
    "Delivery",
    "HttpChannel",
    "Order",
    "Receipt",
    "Worker",
    "carry_out",
    "deliver_to_all",
]
