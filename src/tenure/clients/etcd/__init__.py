"""A client of etcd's v3 protocol (etcd 3.4 and newer): own codec, own gRPC.

Begin with ``client.py``, then ``link.py``. Why it is our own: docs/adr/0012-etcd-client.md.
"""
