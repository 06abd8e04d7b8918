"""Ids: a prefix that says what the thing is, and K-sortable text that says when it was made.

The text is a version 7 UUID in base 32 (digits and lower-case letters that sort as the number does), padded
so that every id is 32 characters long. The UUID can be had back, for the doors and engines that speak UUIDs.
"""

import os
import threading
import time
from uuid import UUID

from scrubjay.errors import InvalidRequest

ID_LENGTH = 32
PREFIXES = {
    "act": "audit entry",
    "adoc": "document",
    "asst": "assistant",
    "ccfg": "crawl config",
    "chnk": "chunk",
    "coll": "collection",
    "cop": "operation",
    "cplan": "plan",
    "cred": "API key",
    "dom": "domain",
    "evt": "outbox event",
    "file": "inventory file",
    "fitem": "frontier item",
    "gen": "index generation",
    "irule": "ingestion rule",
    "job": "job",
    "mail": "mailed link",
    "prx": "proxy",
    "qpage": "queued page",
    "resp": "response",
    "story": "story",
    "tag": "tag",
    "ten": "tenant",
    "ver": "document version",
    "vs": "vector store",
    "vsfb": "vector store file batch",
    "watch": "watch",
    "whd": "webhook delivery",
    "whk": "webhook",
    "wrk": "worker",
}

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_UUID_LENGTH = 26
# Two characters at a time: a search makes hundreds of ids.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_PAIR_SHIFTS = range(5 * (_UUID_LENGTH - 2), -1, -10)

_lock = threading.Lock()
_last = 0


def new_uuid() -> UUID:
    """A version 7 UUID, strictly increasing within this process."""
    global _last
    now_ms = time.time_ns() // 1_000_000
    random_bits = int.from_bytes(os.urandom(10))
    value = (now_ms << 80) | (0x7 << 76) | ((random_bits >> 68 & 0xFFF) << 64)
    value |= (0b10 << 62) | (random_bits & ((1 << 62) - 1))
    with _lock:
        if value <= _last:
            value = _next_after(_last)
        _last = value
    return UUID(int=value)


def _next_after(value: int) -> int:
    """The following UUID, counting in the low 62 bits and carrying over the variant bits."""
    low = (value & ((1 << 62) - 1)) + 1
    if low >> 62:
        high = (value >> 64) + 1
        return (high << 64) | (0b10 << 62)
    return (value >> 62 << 62) | low


def new_id(prefix: str) -> str:
    return id_from_uuid(prefix, new_uuid())


def id_from_uuid(prefix: str, uuid: UUID) -> str:
    number = uuid.int
    text = "".join([_PAIRS[number >> shift & 1023] for shift in _PAIR_SHIFTS])
    return f"{prefix}_{text.rjust(ID_LENGTH - len(prefix) - 1, '0')}"


def uuid_from_id(identifier: str) -> UUID:
    """The UUID inside an id; text that is not one of our ids is an InvalidRequest."""
    prefix, _, text = identifier.partition("_")
    try:
        number = 0
        for character in text[-_UUID_LENGTH:]:
            number = (number << 5) | _VALUES[character]
        uuid = UUID(int=number)
    except (KeyError, ValueError) as error:
        raise InvalidRequest(f"'{identifier[:64]}' is not an id.") from error
    if prefix not in PREFIXES or id_from_uuid(prefix, uuid) != identifier:
        raise InvalidRequest(f"'{identifier[:64]}' is not an id.")
    return uuid
