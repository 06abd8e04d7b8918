"""The HTTP doors. `app.py` mounts one package per dialect; every route parses, calls a service and translates."""
