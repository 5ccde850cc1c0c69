"""Documents in Consul: one key each, whose ModifyIndex is the version. Read and written as the servers decide it.

They lie below ``.tenure-documents/`` behind the store's prefix, as ``NAME.doc``: no lock is called so. The flags of a key are
drawn anew with each write, because Consul does not count a write that changes nothing.
"""

from secrets import randbits

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.failures import Conflict as NotWritten
from tenure.clients.consul.messages import put_if_unchanged
from tenure.model import Document, Version

_FLAG_BITS = 63


def _key(prefix: str, name: str) -> str:
    return f"{prefix}.tenure-documents/{name}.doc"


async def fetch(client: ConsulClient, name: str) -> Document | None:
    """Return a document."""
    pair = await client.get(_key(client.settings.prefix, name), operation="fetch")
    return None if pair is None else Document(pair.value, Version(str(pair.modify_index)))


async def write(client: ConsulClient, name: str, value: bytes, version: Version | None) -> Version | None:
    """Write a document at this version. None: it is at another one."""
    put = put_if_unchanged(_key(client.settings.prefix, name), value, randbits(_FLAG_BITS), int(version or 0))
    try:
        (written,) = await client.txn([put], operation="swap")
    except NotWritten:
        return None
    return Version(str(written.modify_index))
