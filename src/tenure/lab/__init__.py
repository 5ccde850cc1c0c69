"""The laboratory: the algorithms behind the engines, and those that people argue about, under the same faults.

For learning and measuring. Nothing of tenure rests on it, and nobody should run their elections on it: production rents
an engine whose authors do nothing else (docs/explanation/how-raft-elects.md).
"""
