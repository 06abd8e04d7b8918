"""Durable jobs: states, queue, workers and events. This room knows no business.

A job is a row; a worker claims it and calls its handler with a `JobContext`. Whatever a handler
must remember between checkpoints is in the database, so that a killed worker's job goes on with another.
"""
