"""``tenure demo failover``: the 30 s of the design, run for real, with a cold standby and with a warm one.

``director`` plays four stories at once with real processes (``candidate``, ``worker``); ``judge`` reads from their history how long each
part took, and from the workers' own records that they went on; ``wording`` says it.
"""
