"""An app's certificate, out of its PFX file."""

from dataclasses import dataclass, field
from datetime import datetime

from scrubjay.errors import FetchFailed


@dataclass(frozen=True, slots=True)
class Certificate:
    private_key: str = field(repr=False)  # PEM
    public_certificate: str  # PEM
    expires_at: datetime


def read_certificate(data: bytes, password: str | None) -> Certificate:
    # Imported here: it takes a moment, and few have an app.
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    try:
        key, certificate, _ = pkcs12.load_key_and_certificates(data, None if password is None else password.encode())
    except ValueError as error:
        raise FetchFailed(
            "The app's certificate cannot be opened: the file is no PFX file, or its password is another one.",
            error_type="not_configured",
        ) from error
    if key is None or certificate is None:
        raise FetchFailed(
            "The app's PFX file must have both a certificate and its private key.", error_type="not_configured"
        )
    return Certificate(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        certificate.public_bytes(Encoding.PEM).decode(),
        certificate.not_valid_after_utc,
    )
