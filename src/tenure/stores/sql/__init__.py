"""What stores in SQL databases have in common: one row for each election, taken and kept by guarded statements.

``rows`` is what is in a row, and the numbers that tokens are made of; ``settings`` what every such URL says; ``link`` one
connection, with a deadline for every call; ``places`` what this process knows of its own bids, and ``sightings`` of the rows of
others; ``lookout`` waits; ``store`` is what an event loop sees. What a database is told, and in which words, is
``tenure.stores.postgresql`` and ``tenure.stores.mysql``.
"""
