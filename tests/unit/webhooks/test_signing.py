"""Signatures are over the exact bytes, and the example of docs/webhooks.md checks them."""

import hashlib
import hmac
import re
from pathlib import Path
from typing import Any

import pytest

from scrubjay.webhooks.signing import is_signed, new_secret, sign

BODY = '{"a":1, "ß":"世"}\n'.encode()
DOCS = Path(__file__).parents[3] / "docs" / "webhooks.md"


def test_the_signature_is_the_hmac_of_the_time_a_dot_and_the_exact_bytes() -> None:
    expected = hmac.new(b"key", b"1700000000." + BODY, hashlib.sha256).hexdigest()
    assert sign(["key"], 1_700_000_000, BODY) == f"sha256={expected}"


def test_with_two_secrets_there_are_two_signatures_the_newest_first() -> None:
    both = sign(["new", "old"], 1, BODY)
    assert both == f"{sign(['new'], 1, BODY)},{sign(['old'], 1, BODY)}"
    assert is_signed(both, "old", 1, BODY)
    assert is_signed(both, "new", 1, BODY)


@pytest.mark.parametrize(
    ("key", "timestamp", "body"),
    [("other", 1, BODY), ("key", 2, BODY), ("key", 1, BODY + b" "), ("key", 1, BODY.replace(b" ", b""))],
)
def test_another_key_time_or_byte_is_not_signed(key: str, timestamp: int, body: bytes) -> None:
    header = sign(["key"], 1, BODY)
    assert is_signed(header, "key", 1, BODY)
    assert not is_signed(header, key, timestamp, body)
    assert not is_signed("", key, timestamp, body)


def test_secrets_are_long_and_never_the_same() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(len(secret) > 40 for secret in made)


def test_the_receiver_of_the_documentation_accepts_what_is_signed_and_nothing_else() -> None:
    [example] = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    scope: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, "docs/webhooks.md", "exec"), scope)
    secret, now = "s", 1_700_000_000
    headers = {"X-Webhook-Timestamp": str(now), "X-Webhook-Signature": sign(["new", secret], now, BODY)}
    assert scope["is_genuine"](headers, BODY, secret, now=now + 10)
    assert not scope["is_genuine"](headers, BODY + b"x", secret, now=now)
    assert not scope["is_genuine"](headers, BODY, "other", now=now)
    assert not scope["is_genuine"](headers, BODY, secret, now=now + 301)
