"""Who is asking: API keys, their limits, first start, and sign-in links for the dashboard."""

import hashlib
import hmac
import secrets as random_secrets
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.errors import Conflict, Forbidden, InvalidRequest, RateLimited, Unauthenticated, Unavailable
from scrubjay.model.clock import utc_now
from scrubjay.model.page import Page
from scrubjay.model.tenant import DEFAULT_TENANT_ID, ApiKey, Principal, Scope, SignIn, Tenant
from scrubjay.services.acts import note_act
from scrubjay.storage.cache import Allowance, Cache
from scrubjay.storage.cache_keys import API_RATE_PERIOD_SECONDS, api_rate
from scrubjay.storage.database import Database
from scrubjay.storage.home import ADMIN_KEY_FILE, KEY_LENGTHS
from scrubjay.storage.keys import ApiKeys
from scrubjay.storage.secrets import read_private_file, replace_private_file, write_private_file
from scrubjay.storage.sign_ins import SignIns
from scrubjay.storage.tenants import Tenants
from scrubjay.telemetry import get_logger

log = get_logger(__name__)

SESSION_COOKIE = "scrubjay_session"
NAME_LENGTHS = range(1, 101)
MAX_RATE_RPM = 10_000
LINK_LIFETIME = timedelta(minutes=15)
SESSION_LIFETIME = timedelta(hours=12)


def hash_key(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def require(principal: Principal, scope: Scope) -> None:
    if not principal.may(scope):
        raise Forbidden(f"This needs a key with the scope '{scope}'.")


class Access:
    def __init__(self, database: Database, cache: Cache) -> None:
        self._database = database
        self._cache = cache

    async def authenticate(self, key: str | None) -> tuple[Principal, Allowance | None]:
        """The owner of a key, after counting the request against the key's limit."""
        record = await self._find(key)
        return _principal(record), await self._count(record)

    async def recognise(self, key: str | None) -> Principal:
        """The owner of a key, without counting: for a look before the request is read."""
        return _principal(await self._find(key))

    async def _find(self, key: str | None) -> ApiKey:
        if not key or len(key) not in KEY_LENGTHS:
            raise Unauthenticated
        digest = hash_key(key)
        async with self._database.reading() as connection:
            record = await ApiKeys(connection).find_by_hash(digest)
        if record is None or not hmac.compare_digest(record.key_hash, digest):
            raise Unauthenticated("This API key is not known.")
        return record

    async def authenticate_session(self, token: str) -> Principal:
        """The owner of a browser session."""
        async with self._database.reading() as connection:
            session = await SignIns(connection).find_valid(hash_key(token), "session", utc_now())
            record = None if session is None else await ApiKeys(connection).find_by_id(session.key_id)
        if record is None:
            raise Unauthenticated("This session has ended; sign in again.")
        principal = _principal(record)
        await self._count(record)
        return principal

    async def _count(self, record: ApiKey) -> Allowance | None:
        try:
            allowance = await self._cache.allow(
                api_rate(record.key_hash), limit=record.rate_limit_rpm, period_seconds=API_RATE_PERIOD_SECONDS
            )
        except Unavailable as error:
            # Counting is a courtesy to others, not a lock: with the counter gone, service goes on.
            log.warning("request not counted", reason=error.message)
            return None
        if not allowance.allowed:
            raise RateLimited(limit=record.rate_limit_rpm, retry_after_seconds=allowance.reset_seconds)
        return allowance

    async def create_key(
        self,
        principal: Principal,
        *,
        name: str,
        scopes: Iterable[Scope] = (Scope.READ,),
        rate_limit_rpm: int = 60,
        expires_at: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key and its text, which is shown this once."""
        require(principal, Scope.ADMIN)
        _check_name(name)
        _check_expiry(expires_at)
        text = new_key_text()
        record = ApiKey(
            tenant_id=principal.tenant_id,
            name=name,
            key_hash=hash_key(text),
            scopes=tuple(sorted(set(scopes))),
            rate_limit_rpm=rate_limit_rpm,
            expires_at=expires_at,
        )
        async with self._database.writing() as connection:
            await ApiKeys(connection).add(record)
            await note_act(connection, principal, "key.created", record.id, name=name, scopes=record.scopes)
        log.info("API key created", key_id=record.id, scopes=[str(scope) for scope in record.scopes])
        return record, text

    async def create_tenant(self, principal: Principal, name: str) -> Principal:
        """A new tenant, or the one of that name; returns who may make keys in it. For the operator only."""
        require(principal, Scope.ADMIN)
        if principal.tenant_id != DEFAULT_TENANT_ID:
            raise Forbidden("Only an admin of the default tenant may make tenants.")
        _check_name(name)
        async with self._database.writing() as connection:
            tenant = await Tenants(connection).find_by_name(name)
            if tenant is None:
                tenant = await Tenants(connection).add(Tenant(name=name))
                await note_act(connection, principal, "tenant.created", tenant.id, name=name)
        return Principal(tenant_id=tenant.id, key_id=principal.key_id, scopes=principal.scopes)

    async def list_keys(self, principal: Principal, *, limit: int = 100, offset: int = 0) -> Page[ApiKey]:
        require(principal, Scope.ADMIN)
        async with self._database.reading() as connection:
            keys = ApiKeys(connection)
            return await keys.page(keys.of_tenant(principal.tenant_id), limit=limit, offset=offset)

    async def get_key(self, principal: Principal, key_id: str) -> ApiKey:
        require(principal, Scope.ADMIN)
        async with self._database.reading() as connection:
            return await ApiKeys(connection).get(principal.tenant_id, key_id)

    async def change_key(self, principal: Principal, key_id: str, **changes: Any) -> ApiKey:
        require(principal, Scope.ADMIN)
        if changes.get("is_active") is False and key_id == principal.key_id:
            raise Conflict("A key cannot disable itself; use another admin key.")
        if "name" in changes:
            _check_name(changes["name"])
        async with self._database.writing() as connection:
            await ApiKeys(connection).get(principal.tenant_id, key_id)
            changed = await ApiKeys(connection).update(principal.tenant_id, key_id, **changes)
            await note_act(connection, principal, "key.changed", key_id, **changes)
        log.info("API key changed", key_id=key_id, fields=sorted(changes))
        return changed

    async def rotate_key(self, principal: Principal, key_id: str) -> tuple[ApiKey, str]:
        """The same key with another text, which is shown this once; the one that it had is refused from now on."""
        require(principal, Scope.ADMIN)
        text = new_key_text()
        async with self._database.writing() as connection:
            await ApiKeys(connection).get(principal.tenant_id, key_id)
            changed = await ApiKeys(connection).update(principal.tenant_id, key_id, key_hash=hash_key(text))
            await SignIns(connection).end_of_key(key_id)
            await note_act(connection, principal, "key.rotated", key_id)
        log.info("API key rotated", key_id=key_id)
        return changed, text

    async def delete_key(self, principal: Principal, key_id: str) -> None:
        require(principal, Scope.ADMIN)
        if key_id == principal.key_id:
            raise Conflict("A key cannot delete itself; use another admin key.")
        async with self._database.writing() as connection:
            known = await ApiKeys(connection).get(principal.tenant_id, key_id)
            await note_act(connection, principal, "key.deleted", key_id, name=known.name)
            await ApiKeys(connection).delete(principal.tenant_id, key_id)
        log.info("API key deleted", key_id=key_id)

    async def create_sign_in_link(self, principal: Principal) -> str:
        """The token of a link that signs a browser in once, as the given key."""
        token = random_secrets.token_urlsafe(32)
        async with self._database.writing() as connection:
            await _add_sign_in(connection, token, principal.key_id, "link", LINK_LIFETIME)
            await note_act(connection, principal, "link.created")
        return token

    async def sign_in(self, token: str) -> str:
        """Exchange a link's token for a session's; the second try finds nothing."""
        async with self._database.writing() as connection:
            sign_ins = SignIns(connection)
            link = await sign_ins.find_valid(hash_key(token), "link", utc_now())
            if link is None or not await sign_ins.consume(link.token_hash):
                raise Unauthenticated("This sign-in link was used or has expired; ask for a new one.")
            await sign_ins.delete_expired(utc_now())
            record = await ApiKeys(connection).find_by_id(link.key_id)
            if record is None:
                raise Unauthenticated("The key that this sign-in link is for was deleted.")
            return await _add_session(connection, _principal(record), "link")

    async def open_session(self, key: str | None) -> str:
        """Exchange an API key for a session's token; the request counts against the key's limit."""
        principal, _ = await self.authenticate(key)
        async with self._database.writing() as connection:
            return await _add_session(connection, principal, "key")

    async def sign_out(self, token: str) -> None:
        async with self._database.writing() as connection:
            await SignIns(connection).consume(hash_key(token))

    async def open_as_admin(self, home: Path) -> Principal:
        """Who the command line is: the admin key in the data folder, made at first start."""
        text = _read_or_make_admin_key(home / ADMIN_KEY_FILE)
        await self.ensure_default_tenant()
        async with self._database.writing() as connection:
            record = await ApiKeys(connection).find_by_hash(hash_key(text))
            if record is None:
                record = ApiKey(
                    tenant_id=DEFAULT_TENANT_ID,
                    name="admin (made at first start)",
                    key_hash=hash_key(text),
                    scopes=(Scope.ADMIN,),
                    rate_limit_rpm=MAX_RATE_RPM,
                )
                await ApiKeys(connection).add(record)
                await note_act(connection, _principal(record), "key.created", record.id, name=record.name)
        return _principal(record)

    async def rotate_admin(self, principal: Principal, home: Path) -> None:
        """Another key for the command line itself, in the data folder."""
        require(principal, Scope.ADMIN)
        path = home / ADMIN_KEY_FILE
        text = new_key_text()
        # The file first: a process that dies in between leaves a key that the next command makes known.
        replace_private_file(path, text + "\n")
        async with self._database.writing() as connection:
            await ApiKeys(connection).update(principal.tenant_id, principal.key_id, key_hash=hash_key(text))
            await SignIns(connection).end_of_key(principal.key_id)
            await note_act(connection, principal, "key.rotated", principal.key_id)
        log.info("API key rotated", key_id=principal.key_id)

    async def ensure_default_tenant(self) -> None:
        """The operator's own tenant, made once."""
        async with self._database.reading() as connection:
            if await Tenants(connection).find_by_id(DEFAULT_TENANT_ID) is not None:
                return
        try:
            async with self._database.writing() as connection:
                await Tenants(connection).add(Tenant(id=DEFAULT_TENANT_ID, name="default"))
        except Conflict:
            log.debug("another process made the default tenant first")


async def _add_session(connection: AsyncConnection, principal: Principal, by: str) -> str:
    session = random_secrets.token_urlsafe(32)
    await _add_sign_in(connection, session, principal.key_id, "session", SESSION_LIFETIME)
    await note_act(connection, principal, "session.opened", by=by)
    return session


async def _add_sign_in(connection: AsyncConnection, token: str, key_id: str, kind: str, lifetime: timedelta) -> None:
    record = SignIn(token_hash=hash_key(token), key_id=key_id, kind=kind, expires_at=utc_now() + lifetime)
    await SignIns(connection).add(record)


def _read_or_make_admin_key(path: Path) -> str:
    if not path.exists():
        # When another process made it first, its key is the key.
        with suppress(FileExistsError):
            write_private_file(path, new_key_text() + "\n")
    return read_private_file(path).strip()


def _check_name(name: str) -> None:
    """Names are shown in terminals and pages: text that a person can read, and nothing that steers either."""
    if len(name) not in NAME_LENGTHS or not name.strip():
        raise InvalidRequest(f"name must have 1 to {NAME_LENGTHS[-1]} characters.", field="name")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise InvalidRequest("name must not contain control characters.", field="name")


def _check_expiry(expires_at: datetime | None) -> None:
    if expires_at is None:
        return
    if expires_at <= utc_now():
        raise InvalidRequest("expires_at must be in the future.", field="expires_at")
    try:
        expires_at.astimezone(UTC)
    except OverflowError:
        raise InvalidRequest("expires_at is too far away.", field="expires_at") from None


def new_key_text() -> str:
    """`sj_` makes a leaked key easy to recognise; logs blank whatever looks like this."""
    return f"sj_{random_secrets.token_hex(4)}_{random_secrets.token_urlsafe(32)}"


def _principal(record: ApiKey) -> Principal:
    if not record.is_active:
        raise Unauthenticated("This API key is disabled.")
    if record.expires_at is not None and record.expires_at <= utc_now():
        raise Unauthenticated("This API key has expired.")
    return Principal(tenant_id=record.tenant_id, key_id=record.id, scopes=frozenset(record.scopes))
