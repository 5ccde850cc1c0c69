"""Documents in etcd: one key each, whose last revision is the version. Read and written as the cluster decides it.

They lie below ``tenure/document/`` in the store's namespace, as ``NAME.doc``: behind no name does a lease id stand, so no election,
of ours or of another program, takes one for a candidate.
"""

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import KeyValue, Put, Range, Txn, modified
from tenure.model import Conflict, Document, Version
from tenure.stores.etcd.layout import found


def _key(namespace: str, name: str) -> bytes:
    return f"{namespace}tenure/document/{name}.doc".encode()


async def fetch(client: EtcdClient, namespace: str, name: str) -> Document | None:
    """Return a document."""
    return _document((await client.range(Range(_key(namespace, name)), operation="fetch")).kvs)


async def swap(
    client: EtcdClient, namespace: str, name: str, value: bytes, version: Version | None
) -> Document | Conflict:
    """Write a document at this version, or say what is there: one transaction does both."""
    key = _key(namespace, name)
    txn = Txn((modified(key, int(version or 0)),), (Put(key, value),), (Range(key),))
    answer = await client.txn(txn, operation="swap")
    if answer.succeeded:
        return Document(value, Version(str(answer.revision)))
    return Conflict(_document(found(answer, 0)))


def _document(kvs: tuple[KeyValue, ...]) -> Document | None:
    return Document(kvs[0].value, Version(str(kvs[0].mod_revision))) if kvs else None
