"""A client of Consul's HTTP interface (Consul 1.10 and newer): keys, transactions, sessions and waits.

Begin with ``client.py``. ``messages`` is what is asked for, ``failures`` what an answer means, ``settings`` reads a URL. The
way there is ``tenure.clients.http``. Why it is our own: docs/adr/0016-consul-store.md.
"""
