"""Adapters to engines. Every store keeps the five methods and the contract of ``base``."""
