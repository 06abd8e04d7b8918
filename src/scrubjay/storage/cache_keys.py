"""The names of everything kept in the cache, and how long each is kept.

Hashes are cut to 32 characters (128 bits). Search results have the tenant inside their hash; the embedding of a
query depends only on the model and the text, so tenants share it.
"""

import hashlib

HASH_LENGTH = 32

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

QUERY_RESULT_SECONDS = _HOUR
QUERY_EMBEDDING_SECONDS = _DAY
API_RATE_PERIOD_SECONDS = _MINUTE
CIRCUIT_SECONDS = _HOUR
ROBOTS_SECONDS = 7 * _DAY  # asked for again after a day; an old copy still counts while the host cannot be reached
ROBOTS_UNREACHABLE_SECONDS = _MINUTE


def query_result(query: str, *, tenant_id: str) -> str:
    """`query` is the canonical text of the whole request: words, filters, collection, limits."""
    return f"cache:query:{_digest(tenant_id, query)}"


def query_embedding(query: str, *, model: str) -> str:
    return f"cache:query_embed:{_digest(model, query)}"


def host_rate(host: str) -> str:
    return f"rate:{host.lower()}"


def api_rate(api_key_hash: str) -> str:
    """For `Cache.allow`, which adds the number of the minute."""
    return f"rate:api:{api_key_hash[:HASH_LENGTH]}"


def circuit(host: str) -> str:
    return f"circuit:{host.lower()}"


def robots(origin: str) -> str:
    return f"cache:robots:{_digest(origin)}"


def _digest(*parts: str) -> str:
    # The lengths keep ("ab", "c") apart from ("a", "bc").
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]
