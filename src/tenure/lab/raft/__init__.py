"""Raft, as Ongaro and Ousterhout describe it, to learn from and to measure: a pure machine, in a world that breaks.

Left out: changes of membership, snapshots, reads. An engine that you rent has them.
"""
