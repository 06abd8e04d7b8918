"""Sample content for pictures of the dashboard: crawlers that ran over a site which changed, and things that failed."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic

import anyio

import scrubjay
from scrubjay.app import Scrubjay
from scrubjay.errors import Conflict
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.job import JobState
from scrubjay.model.plan import ENDED_STATES, DeletionSettings, IngestionSettings, Operation, Plan, ScheduleSettings
from scrubjay.model.tenant import Principal
from scrubjay.services.documents import DocumentQuery
from scrubjay.services.plans import PlanValues
from scrubjay.services.rules import RuleValues

SAMPLE = Path(scrubjay.__file__).parent / "sample"
RUN_SECONDS = 120.0
DAILY = ScheduleSettings(interval_value=24)
NO_GUARD = DeletionSettings(min_missing_items=1000)
FEED = """<?xml version="1.0"?><rss version="2.0"><channel><title>{name}</title><item><title>{title}</title>
<link>{url}{page}</link><guid>{page}</guid></item></channel></rss>"""
PAGE = "<html><head><title>{title}</title></head><body><main><h1>{title}</h1><p>{text}</p></main></body></html>"
# The same news as four sources tell it; each has an address of its own, because sources are told apart by their hosts.
NEWS = {
    "Valley Herald": (
        "Record 412 scrub jays counted in the autumn survey at Jay House",
        "Volunteers at Jay House counted 412 scrub jays in this autumn's survey, the highest number since the station "
        "began its counts. The station's warden called the record a surprise after two dry summers in the valley.",
    ),
    "Oak Street Journal": (
        "Autumn survey at Jay House counts record 412 scrub jays",
        "The autumn survey at Jay House has ended with a record: 412 scrub jays were counted over three mornings. "
        "Organisers had expected fewer birds, since the oaks bore few acorns last year.",
    ),
    "Bird Wire": (
        "Jay House autumn survey: record count of 412 scrub jays",
        "A record count of 412 scrub jays was reported from the autumn survey at Jay House. Observers walked twelve "
        "routes, and each route was walked twice so that no bird was counted in two places.",
    ),
    "The Acorn": (
        "412 scrub jays: record in the Jay House autumn survey",
        "Never before were so many scrub jays seen in the autumn survey at Jay House: 412, a record. Helpers hope that "
        "the good acorn year brings even more birds to the station next autumn.",
    ),
}


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is the library's
        """Nobody reads along."""


@contextmanager
def changing_site(folder: Path, address: str = "127.0.0.1") -> Iterator[str]:
    """A copy of the bundled site that can be changed, and its address."""
    shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    server = ThreadingHTTPServer((address, 0), partial(_Handler, directory=str(folder)))
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://{address}:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


async def fill(jay: Scrubjay, who: Principal, site: Path, url: str) -> dict[str, str]:
    """Everything that pages can show; an id for every parameter of a page's address."""
    collection = await jay.collections.create(who, name="Field notes", description="What the station wrote down")
    await jay.collections.create_tag(who, "birds")
    ids = await _settings(jay, who, collection.id)
    plan = await _plan(jay, who, url, "Jay House", collection.id, rule_id=ids["rule_id"])
    await _run(jay, who, plan)
    ids |= await _change_and_run(jay, who, plan, site)
    broken = await _plan(jay, who, "http://127.0.0.1:9/", "Station archive", None)
    await _run(jay, who, broken)
    with suppress(Conflict):  # and one more job that fails
        await jay.plans.look(who, broken.id)
    await jay.crawls.start(who, read_spec({"start_urls": [url], "max_pages": 20, "delay_ms": 10}))
    ids |= await _watches(jay, who, site.parent)
    ids |= await _webhook(jay, who)
    ids |= await _domain(jay, who, url)
    slow = await _plan(jay, who, url, "Slow and polite", collection.id, delay_ms=5000)
    await jay.plans.start(who, slow.id)
    await jay.indexer.drain()
    return ids | {"collection_id": collection.id}


async def _settings(jay: Scrubjay, who: Principal, collection_id: str) -> dict[str, str]:
    rule = RuleValues(
        name="Field notes, by sentence",
        description="Short chunks for short notes",
        collection_id=collection_id,
        labels=("birds",),
        chunking={"Strategy": "SentenceBased", "FixedTokenCount": 256, "OverlapCount": 32},
    )
    headers = {"Accept-Language": "en", "Authorization": "Bearer only-a-sample"}
    servers = [{"url": "http://127.0.0.1:3128", "username": "jay", "password": "only-a-sample"}]
    config = await jay.crawl_settings.create_config(who, name="Patient", rate_limit_rps=0.5, headers=headers)
    proxy = await jay.crawl_settings.create_proxy(who, name="Office", servers=servers)
    await jay.crawl_settings.set_host(who, "busy.example.org", rate_limit_rps=0.2)
    host = await jay.crawl_settings.set_host(
        who, "tracker.example.com", is_blocked=True, blocked_reason="Asked us not to come"
    )
    made = await jay.rules.create(who, rule)
    return {"rule_id": made.id, "config_id": config.id, "proxy_id": proxy.id, "host": host.host}


async def _plan(
    jay: Scrubjay,
    who: Principal,
    url: str,
    name: str,
    collection_id: str | None,
    *,
    rule_id: str | None = None,
    delay_ms: int = 10,
) -> Plan:
    values = PlanValues(
        name=name,
        repository_settings={"start_url": url, "crawl_delay_ms": delay_ms, "max_parallel_tasks": 1},
        ingestion_settings=IngestionSettings(collection_id=collection_id, ingestion_rule_id=rule_id),
        schedule=DAILY,
        deletion=NO_GUARD,
        process_deletions=True,
        is_active=False,  # nothing runs but what is asked for
    )
    return await jay.plans.create(who, values)


async def _run(jay: Scrubjay, who: Principal, plan: Plan) -> Operation:
    operation = await jay.plans.start(who, plan.id)
    deadline = monotonic() + RUN_SECONDS
    while operation.state not in ENDED_STATES:
        if monotonic() > deadline:
            raise TimeoutError(f"the plan '{plan.name}' is not through after {RUN_SECONDS:.0f} seconds")
        await anyio.sleep(0.1)
        operation = await jay.operations.get(who, plan.id, operation.id)
    return operation


async def _change_and_run(jay: Scrubjay, who: Principal, plan: Plan, site: Path) -> dict[str, str]:
    """A page changes, one is removed, one points to what is not there; and once more nothing happens."""
    (site / "calls.html").unlink()
    for page in site.glob("*.html"):
        text = page.read_text().replace('<a href="calls.html">Calls</a>', "")
        page.write_text(text)
    food = site / "food.html"
    food.write_text(food.read_text().replace("60 %", "55 %").replace("Unsalted peanuts", "Unsalted hazelnuts"))
    operation = await _run(jay, who, plan)
    for _ in range(3):
        await _run(jay, who, plan)
    found = await jay.documents.page(who, DocumentQuery(plan_id=plan.id))
    changed = next(each for each in found.items if each.url.endswith("/food.html"))
    return {
        "plan_id": plan.id,
        "operation_id": operation.id,
        "job_id": str(operation.job_id),
        "document_id": changed.id,
    }


async def _watches(jay: Scrubjay, who: Principal, folder: Path) -> dict[str, str]:
    """Sources that tell the same story, so that it breaks."""
    watch = None
    for number, (name, (title, text)) in enumerate(NEWS.items(), start=2):
        with changing_site(folder / f"news-{number}", f"127.0.0.{number}") as url:
            site = folder / f"news-{number}"
            (site / "jays.html").write_text(PAGE.format(title=title, text=text))
            (site / "feed.xml").write_text(FEED.format(name=name, title=title, url=url, page="jays.html"))
            watch = await jay.watches.create(who, url=f"{url}feed.xml", name=name, catch_up=True)
            with suppress(Conflict):  # it is being looked at already
                await jay.watches.poll(who, watch.id)
            await _idle(jay, who, watch.id)
    stories = await jay.watches.stories(who, limit=1)
    return {"watch_id": watch.id if watch else "", "story_id": stories.items[0].id}


async def _idle(jay: Scrubjay, who: Principal, watch_id: str) -> None:
    """Wait until the watch was looked at, and what came of it is done."""
    deadline = monotonic() + RUN_SECONDS
    while monotonic() < deadline:
        seen = (await jay.watches.items(who, watch_id)).total
        counts = await jay.jobs.counts(who)
        if seen and not counts[JobState.PENDING] + counts[JobState.RUNNING]:
            return
        await anyio.sleep(0.1)
    raise TimeoutError(f"the watch is not through after {RUN_SECONDS:.0f} seconds")


async def _webhook(jay: Scrubjay, who: Principal) -> dict[str, str]:
    webhook = (await jay.webhooks.create(who, url="http://127.0.0.1:9/jays")).webhook
    await jay.webhooks.test(who, webhook.id)
    return {"webhook_id": webhook.id}


async def _domain(jay: Scrubjay, who: Principal, url: str) -> dict[str, str]:
    values = {
        "domain_id": "JAYHOUSE",
        "name": "Jay House",
        "description": "The station's own pages",
        "web_sources": [{"source_id": "pages", "start_url": url}],
    }
    made = await jay.domains.create(who, values)
    return {"domain_id": str(made["domain_id"])}
