"""Durable jobs: states, queue, workers, events and schedules. This room knows no business.

A job is a row; a worker claims it, a carrier runs it, the handler gets a `JobContext`. Whatever a handler
must remember between checkpoints is in the database, so that a killed worker's job goes on with another.
"""
