"""An app that reads the SharePoint server of the tests: its settings, and its certificate."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, NoEncryption, pkcs12
from cryptography.x509.oid import NameOID
from pydantic import SecretStr
from tests.sharepoint_server import CLIENT_ID, CLIENT_SECRET, TENANT, SharePointServer

from scrubjay.settings import Settings

NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "scrubjay tests")])


@lru_cache(maxsize=1)
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def make_certificate(*, days: float = 30, password: str | None = "secret") -> tuple[bytes, x509.Certificate]:
    """A PFX file's bytes, and the certificate in it; of one that has expired, the days are negative."""
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(NAME)
        .issuer_name(NAME)
        .public_key(_key().public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .sign(_key(), hashes.SHA256())
    )
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return pkcs12.serialize_key_and_certificates(b"scrubjay", _key(), certificate, None, encryption), certificate


def app_settings(server: SharePointServer, home: Path, **changes: Any) -> Settings:
    """Settings of a deployment whose app has a secret."""
    given = {
        "sharepoint_authority_url": server.url,
        "sharepoint_tenant_id": TENANT,
        "sharepoint_client_id": CLIENT_ID,
        "sharepoint_client_secret": SecretStr(CLIENT_SECRET),
    }
    return Settings(home=home, **{**given, **changes})
