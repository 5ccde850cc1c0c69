"""Thin clients of engines: what stores and sinks both stand on.

A client knows the protocol of its engine, where the engine is, and which of three outcomes a request had. It knows
nothing of elections.
"""
