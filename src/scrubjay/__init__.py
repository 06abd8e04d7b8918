"""Scrubjay crawls what keeps changing, remembers exactly what changed, and answers searches over it."""

__version__ = "0.1.0"
