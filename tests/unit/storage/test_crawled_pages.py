"""What a re-crawl writes of pages that did not change."""

import os
from datetime import timedelta

from sqlalchemy import text

from scrubjay.model.clock import utc_now
from scrubjay.model.crawling import CrawledPage, PageSeen
from scrubjay.model.ids import new_id
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Tenant
from scrubjay.settings import Settings
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import open_database
from scrubjay.storage.schema import require_current
from scrubjay.storage.tenants import Tenants

PAGES = 20
TEXT_BYTES = 40_000


async def test_confirming_pages_does_not_write_their_texts_again(settings: Settings) -> None:
    database = open_database(settings)
    await require_current(database, auto_migrate=True)
    log = settings.home / "scrubjay.db-wal"
    pages = [
        CrawledPage(
            scope_id="site_x", url_hash=f"{number:064}", tenant_id=DEFAULT_TENANT_ID, job_id=new_id("job"),
            url=f"https://jay.example/{number}", status=200,
            content=os.urandom(TEXT_BYTES), details=b"d", duration_ms=400,
        )
        for number in range(PAGES)
    ]  # fmt: skip
    later = utc_now() + timedelta(days=1)
    seen = [PageSeen(url_hash=page.url_hash, depth=page.depth, seen_at=later) for page in pages]
    try:
        async with database.writing() as connection:
            if not await Tenants(connection).count():
                await Tenants(connection).add(Tenant(id=DEFAULT_TENANT_ID, name="default"))
            await CrawledPages(connection).put(pages)
        written = log.stat().st_size
        async with database.reading() as connection:
            await connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
        async with database.writing() as connection:
            await CrawledPages(connection).confirm("site_x", job := new_id("job"), seen)
        confirmed = log.stat().st_size
        async with database.reading() as connection:
            kept = await CrawledPages(connection).of_job(job)
    finally:
        await database.close()

    assert written > PAGES * TEXT_BYTES
    assert confirmed < written / 4
    assert [(page.content, page.duration_ms, page.fetched_at) for page in kept] == [
        (page.content, 400, later) for page in pages
    ]
