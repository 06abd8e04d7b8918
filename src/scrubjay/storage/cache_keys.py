"""The names of everything kept in the cache, and how long each is kept.

Hashes are cut to 32 characters (128 bits). What depends on who asks has the tenant inside its hash; an
embedding depends on nothing but the model and the text, so tenants share it.
"""

import hashlib

HASH_LENGTH = 32

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

CRAWL_RESULT_SECONDS = _DAY
EMBEDDING_SECONDS = 7 * _DAY
QUERY_RESULT_SECONDS = _HOUR
QUERY_EMBEDDING_SECONDS = _DAY
HOST_RATE_SECONDS = 1
API_RATE_PERIOD_SECONDS = _MINUTE
API_RATE_SECONDS = 2 * _MINUTE
CIRCUIT_SECONDS = _HOUR
CRAWL_LOCK_SECONDS = 5 * _MINUTE
QUERY_LOCK_SECONDS = 30
ROBOTS_SECONDS = 7 * _DAY  # asked for again after a day; an old copy still counts while the host cannot be reached
ROBOTS_UNREACHABLE_SECONDS = _MINUTE


def crawl_result(url: str, *, tenant_id: str) -> str:
    return f"cache:crawl:{_digest(tenant_id, url)}"


def embedding(content: str, *, model: str) -> str:
    return f"cache:embed:{_digest(model, content)}"


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


def crawl_lock(url: str, *, tenant_id: str) -> str:
    return f"lock:crawl:{_digest(tenant_id, url)}"


def query_lock(query: str, *, tenant_id: str) -> str:
    return f"lock:query:{_digest(tenant_id, query)}"


def robots(origin: str) -> str:
    return f"cache:robots:{_digest(origin)}"


def _digest(*parts: str) -> str:
    # The lengths keep ("ab", "c") apart from ("a", "bc").
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]
