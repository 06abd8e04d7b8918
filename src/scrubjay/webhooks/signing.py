"""Signatures: HMAC SHA-256 over the time and the exact bytes of the body, so that neither can be changed."""

import hashlib
import hmac
import secrets
from collections.abc import Sequence

_SECRET_BYTES = 32


def new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(_SECRET_BYTES)}"


def sign(keys: Sequence[str], timestamp: int, body: bytes) -> str:
    """The header X-Webhook-Signature: one signature for each secret that is valid, the newest first."""
    message = str(timestamp).encode() + b"." + body
    return ",".join(f"sha256={hmac.new(key.encode(), message, hashlib.sha256).hexdigest()}" for key in keys)


def is_signed(header: str, key: str, timestamp: int, body: bytes) -> bool:
    """What a receiver does: whether one of the signatures was made with this secret."""
    wanted = sign([key], timestamp, body)
    return any(hmac.compare_digest(wanted, given.strip()) for given in header.split(","))
