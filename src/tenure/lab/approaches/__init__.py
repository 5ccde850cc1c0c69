"""Ways to elect that people use, or argue about, in one world under the same faults, judged by the same checkers.

Bully, a flag in a row, SETNX, Redlock, Raft's leader, and the machine that this package ships. For learning and measuring:
nobody should run their elections on the ones that stand here.
"""
