"""AWS Signature Version 4 for requests that read: what S3 wants to see of somebody who has a key."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class S3Credentials:
    access_key_id: str
    secret_access_key: str = field(repr=False)


def encode_path(path: str) -> str:
    """A path as S3 signs it: encoded once, slashes kept, nothing collapsed."""
    return quote(path, safe="/-_.~")


def encode_query(parameters: Iterable[tuple[str, str]]) -> str:
    """A query in the one order and spelling that is signed; it is sent the same way."""
    encoded = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parameters)
    return "&".join(f"{name}={value}" for name, value in encoded)


def sign_get(
    credentials: S3Credentials,
    *,
    host: str,
    path: str,
    query: str,
    region: str,
    now: datetime,
    headers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The headers that a GET needs in addition. `path` and `query` are encoded; `host` is the Host header as sent."""
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    added = {"x-amz-content-sha256": _EMPTY_SHA256, "x-amz-date": moment}
    signed = {"host": host, **{name.lower(): value.strip() for name, value in (headers or {}).items()}, **added}
    names = ";".join(sorted(signed))
    lines = [f"{name}:{signed[name]}" for name in sorted(signed)]
    canonical = "\n".join(["GET", path, query, *lines, "", names, _EMPTY_SHA256])
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    to_sign = "\n".join([ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signature = hmac.new(_signing_key(credentials, scope), to_sign.encode(), hashlib.sha256).hexdigest()
    credential = f"{credentials.access_key_id}/{scope}"
    return {
        **added,
        "Authorization": f"{ALGORITHM} Credential={credential},SignedHeaders={names},Signature={signature}",
    }


def _signing_key(credentials: S3Credentials, scope: str) -> bytes:
    key = f"AWS4{credentials.secret_access_key}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
