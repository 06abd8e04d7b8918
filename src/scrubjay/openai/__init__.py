"""The OpenAI-shaped inventory: one protocol, on our own documents and index (`local`) or on OpenAI's API (`remote`)."""
