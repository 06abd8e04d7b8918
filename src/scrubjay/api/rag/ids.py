"""Ids on this door's wire: UUIDs out, UUIDs or our own spelling in."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends
from pydantic import BeforeValidator, WithJsonSchema

from scrubjay.api.deps import identifier
from scrubjay.errors import InvalidRequest
from scrubjay.model.ids import id_from_uuid, uuid_from_id

_SCHEMA = WithJsonSchema({"type": "string", "format": "uuid"})


def wire(identifier: str) -> str:
    """One of our ids as this door shows it."""
    return str(uuid_from_id(identifier))


def maybe_wire(identifier: str | None) -> str | None:
    return None if identifier is None else wire(identifier)


WireId = Annotated[str, BeforeValidator(wire)]  # made from one of our ids


def _reader(prefix: str) -> BeforeValidator:
    def _read(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError("must be a UUID")  # noqa: TRY004 - Pydantic turns only this into an answer
        try:
            if value.startswith(prefix + "_"):
                uuid_from_id(value)
                return value
            return id_from_uuid(prefix, UUID(value))
        except (ValueError, InvalidRequest):
            raise ValueError("must be a UUID") from None

    return BeforeValidator(_read)


CollectionRef = Annotated[str, _reader("coll"), _SCHEMA]
KeyRef = Annotated[str, _reader("cred"), _SCHEMA]
TagRef = Annotated[str, _reader("tag"), _SCHEMA]
ConfigRef = Annotated[str, _reader("ccfg"), _SCHEMA]
ProxyRef = Annotated[str, _reader("prx"), _SCHEMA]
SourceRef = Annotated[str, _reader("cplan"), _SCHEMA]
WebhookRef = Annotated[str, _reader("whk"), _SCHEMA]

CollectionId = Annotated[str, Depends(identifier("coll", "collection", "collection_id"))]
ConfigId = Annotated[str, Depends(identifier("ccfg", "config", "config_id"))]
DeliveryId = Annotated[str, Depends(identifier("whd", "delivery", "delivery_id"))]
DocumentId = Annotated[str, Depends(identifier("adoc", "document", "document_id"))]
JobId = Annotated[str, Depends(identifier("job", "job", "job_id"))]
KeyId = Annotated[str, Depends(identifier("cred", "API key", "key_id"))]
ProxyId = Annotated[str, Depends(identifier("prx", "proxy", "proxy_id"))]
SourceId = Annotated[str, Depends(identifier("cplan", "source", "source_id"))]
TagId = Annotated[str, Depends(identifier("tag", "tag", "tag_id"))]
WebhookId = Annotated[str, Depends(identifier("whk", "webhook", "webhook_id"))]
