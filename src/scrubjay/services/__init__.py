"""Every verb once: permission, transaction, event. Doors call only this room."""
