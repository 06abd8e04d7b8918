"""Watches as doors see them: make, change, poll and remove them; their items, their stories, and the brake."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.web_crawler import WebCrawler
from scrubjay.errors import Conflict, Forbidden, InvalidRequest
from scrubjay.model.clock import utc_now
from scrubjay.model.page import Page
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Principal, Scope
from scrubjay.model.urls import parse_url
from scrubjay.model.watching import ItemState, Story, Throttle, ThrottleLevel, Watch, WatchItem, WatchKind
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.services.reading import matching, read_item, read_page
from scrubjay.settings import Settings
from scrubjay.storage.collections import Collections
from scrubjay.storage.database import Database
from scrubjay.storage.plans import Plans
from scrubjay.storage.watches import Stories, StoryRow, Throttles, Watches, WatchItemRow, WatchItems, WatchRow
from scrubjay.watches.brake import read_brake
from scrubjay.watches.poll import PollOutcome
from scrubjay.watches.watcher import Watcher

NAME_LENGTH = 200
REASON_LENGTH = 500
RANGES: Mapping[str, tuple[float, float]] = {
    "poll_interval_seconds": (60, 604_800),
    "daily_budget": (1, 100_000),
    "weight": (0, 10),
    "threshold": (0, 1),
}
CHANGEABLE = frozenset(
    {"name", "url", "kind", "plan_id", "collection_id", "enabled", "poll_interval_seconds", "daily_budget", "weight"}
    | {"threshold", "catch_up"}
)
NULLABLE = frozenset({"plan_id", "collection_id", "threshold"})
# Another source, or another way to read it: what is known of the old one says nothing any more.
_FRESH: Mapping[str, Any] = {
    "etag": None,
    "last_modified": None,
    "last_fingerprint": None,
    "memory": {},
    "last_success_at": None,
    "failures": 0,
    "last_error": None,
    "notice": None,
    "lease": None,  # a poll that is under way writes nothing
}
_SITEMAP = re.compile(r"sitemap[^/]*(\.xml|\.txt)(\.gz)?$|/sitemap/?$", re.IGNORECASE)
_FEED = re.compile(r"(\.(rss|atom|rdf|xml|json)|/(rss|atom|feeds?)/?)$|[?&/](feed|rss|atom)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StoryDetails:
    story: Story
    sources: list[str]
    items: list[WatchItem]


class WatchService:
    def __init__(self, database: Database, settings: Settings, crawler: WebCrawler, watcher: Watcher) -> None:
        self._database = database
        self._settings = settings
        self._crawler = crawler
        self._watcher = watcher

    async def create(self, principal: Principal, *, url: str, name: str | None = None, **values: Any) -> Watch:
        """A new watch; it is due at once. What its source has already is remembered, not news."""
        require(principal, Scope.WRITE)
        address = self._check_url(url)
        given = {key: value for key, value in values.items() if value is not None}
        checked = _check({**given, "name": name or address.partition("://")[2].rstrip("/")[:NAME_LENGTH]})
        checked.setdefault("kind", guess_kind(address))
        watch = Watch(tenant_id=principal.tenant_id, url=address, **checked)
        async with self._database.writing() as connection:
            await _check_parts(connection, principal, checked)
            return await Watches(connection).add(watch)

    async def get(self, principal: Principal, watch_id: str) -> Watch:
        return await read_item(self._database, principal, Watches, watch_id)

    async def page(
        self,
        principal: Principal,
        *,
        kind: WatchKind | None = None,
        enabled: bool | None = None,
        name: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Page[Watch]:
        """Newest first."""
        wanted = matching((WatchRow.kind, kind), (WatchRow.enabled, enabled), (WatchRow.name, name))
        return await read_page(
            self._database, principal, Watches, *wanted, newest_first=True, limit=limit, offset=offset
        )

    async def change(self, principal: Principal, watch_id: str, **values: Any) -> Watch:
        """Change what is given. Another address or kind begins anew; another interval holds from now on."""
        require(principal, Scope.WRITE)
        unknown = set(values) - CHANGEABLE
        if unknown:
            raise InvalidRequest(f"{min(unknown)} cannot be changed.", field=min(unknown))
        changes = _check(values)
        if "url" in changes:
            changes["url"] = self._check_url(changes["url"])
        async with self._database.writing() as connection:
            watch = await Watches(connection).get(principal.tenant_id, watch_id)
            if not changes:
                return watch
            await _check_parts(connection, principal, changes)
            if any(changes.get(key, getattr(watch, key)) != getattr(watch, key) for key in ("url", "kind")):
                changes |= _FRESH
            if changes.keys() & {"url", "kind", "enabled", "poll_interval_seconds", "daily_budget"} and (
                watch.lease is None or "lease" in changes
            ):
                changes["next_poll_at"] = utc_now()
            return await Watches(connection).update(principal.tenant_id, watch_id, **changes)

    async def delete(self, principal: Principal, watch_id: str) -> None:
        """The watch and what it has seen; the documents that came of it stay."""
        require(principal, Scope.WRITE)
        async with self._database.writing(long=True) as connection:
            await Watches(connection).get(principal.tenant_id, watch_id)
            await Watches(connection).delete(principal.tenant_id, watch_id)

    async def poll(self, principal: Principal, watch_id: str) -> PollOutcome:
        """Look at the source now, within the day's budget."""
        require(principal, Scope.WRITE)
        watch = await self.get(principal, watch_id)
        brake = await read_brake(self._database, self._settings)
        if brake.level is ThrottleLevel.STOP:
            raise Conflict(f"All watches are stopped: {brake.reason or 'the emergency throttle is on.'}")
        return await self._watcher.poll_now(watch)

    async def items(
        self,
        principal: Principal,
        watch_id: str,
        *,
        state: ItemState | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Page[WatchItem]:
        """What a watch has seen, the latest news first."""
        await self.get(principal, watch_id)
        conditions = [WatchItemRow.tenant_id == principal.tenant_id, WatchItemRow.watch_id == watch_id]
        if state is not None:
            conditions.append(WatchItemRow.state == state)
        async with self._database.reading() as connection:
            return await WatchItems(connection).page(
                *conditions,
                limit=limit,
                offset=offset,
                order=[WatchItemRow.seen_at.desc(), WatchItemRow.key_hash.asc()],
            )

    async def stories(
        self, principal: Principal, *, breaking: bool | None = None, limit: int = 100, offset: int = 0
    ) -> Page[Story]:
        """What grew last comes first."""
        require(principal, Scope.READ)
        conditions: list[ColumnElement[bool]] = [StoryRow.tenant_id == principal.tenant_id]
        if breaking is not None:
            conditions.append(StoryRow.breaking_at.is_not(None) if breaking else StoryRow.breaking_at.is_(None))
        async with self._database.reading() as connection:
            return await Stories(connection).page(
                *conditions, limit=limit, offset=offset, order=[StoryRow.last_seen_at.desc(), StoryRow.id.desc()]
            )

    async def story(self, principal: Principal, story_id: str) -> StoryDetails:
        """A story with its sources and the newest of what they say."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            stories = Stories(connection)
            story = await stories.get(principal.tenant_id, story_id)
            items = await WatchItems(connection).page(
                WatchItemRow.tenant_id == principal.tenant_id,
                WatchItemRow.story_id == story_id,
                order=[WatchItemRow.seen_at.desc(), WatchItemRow.key_hash.asc()],
            )
            return StoryDetails(story, list(await stories.sites(story_id)), list(items.items))

    async def throttle(self, principal: Principal) -> Throttle:
        """What holds now: the stricter of the setting and the switch."""
        require(principal, Scope.READ)
        return await read_brake(self._database, self._settings)

    async def set_throttle(self, principal: Principal, level: ThrottleLevel, reason: str | None = None) -> Throttle:
        """Set the brake of all watches of this deployment. For the operator only."""
        require(principal, Scope.ADMIN)
        if principal.tenant_id != DEFAULT_TENANT_ID:
            raise Forbidden("Only an admin of the default tenant may throttle all watches.")
        if reason is not None and len(reason) > REASON_LENGTH:
            raise InvalidRequest(f"reason must have at most {REASON_LENGTH} characters.", field="reason")
        async with self._database.writing() as connection:
            await Throttles(connection).put(Throttle(level=level, reason=reason, changed_at=utc_now()))
            await note_act(connection, principal, "watches.throttled", str(level), reason=reason)
        return await self.throttle(principal)

    def _check_url(self, text: str) -> str:
        url = parse_url(text.strip(), field="url")
        if url.username or url.password:
            raise InvalidRequest("url must have no credentials.", field="url")
        self._crawler.network.guard.check_host(url.host)
        return url.text


def guess_kind(url: str) -> WatchKind:
    """By its address; a page when nothing speaks for another kind."""
    address = url.partition("#")[0]
    path = address.partition("?")[0]
    if _SITEMAP.search(path):
        return WatchKind.SITEMAP
    return WatchKind.FEED if _FEED.search(path) or _FEED.search(address) else WatchKind.PAGE


def _check(values: Mapping[str, Any]) -> dict[str, Any]:
    checked = dict(values)
    for field, value in values.items():
        if value is None and field not in NULLABLE:
            raise InvalidRequest(f"{field} must not be empty.", field=field)
    name = checked.get("name")
    if name is not None:
        checked["name"] = name = str(name).strip()
        if not 1 <= len(name) <= NAME_LENGTH:
            raise InvalidRequest(f"name must have 1 to {NAME_LENGTH} characters.", field="name")
    for field, (least, most) in RANGES.items():
        value = checked.get(field)
        if value is not None and not least <= value <= most:
            raise InvalidRequest(f"{field} must be between {least:g} and {most:g}.", field=field)
    return checked


async def _check_parts(connection: AsyncConnection, principal: Principal, values: Mapping[str, Any]) -> None:
    """What is named must be there, and the tenant's own."""
    if values.get("plan_id") is not None:
        await Plans(connection).get(principal.tenant_id, values["plan_id"])
    if values.get("collection_id") is not None:
        await Collections(connection).get(principal.tenant_id, values["collection_id"])
