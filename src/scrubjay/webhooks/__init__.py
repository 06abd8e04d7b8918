"""Webhooks: what happened becomes deliveries (`publisher.py`), and those are signed and sent (`dispatcher.py`)."""
