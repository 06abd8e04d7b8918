"""What is kept: the database (one file per noun), bodies, the cache and sealed secrets.

Repositories never commit: a service opens a transaction and hands its connection to the repositories it needs.
"""
