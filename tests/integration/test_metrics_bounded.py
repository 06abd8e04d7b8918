"""The acceptance of spec 003 §5: a thousand jobs keep the exposition under two thousand lines."""

from pathlib import Path

import pytest
from tests.acceptance.house import open_house
from tests.workshop import open_workshop, wait_until

from scrubjay.model.job import JobState
from scrubjay.queue.context import JobContext
from scrubjay.queue.kinds import JobKind
from scrubjay.settings import Settings
from scrubjay.telemetry import CrawlCounts, crawl_meter


@pytest.fixture
def settings(home: Path, migrated_databases: list[Path]) -> Settings:
    for file in migrated_databases:
        (home / file.name).write_bytes(file.read_bytes())
    return Settings(home=home)


@pytest.mark.slow
async def test_a_thousand_jobs_leave_the_exposition_under_two_thousand_lines(settings: Settings) -> None:
    """Real jobs through the real engine; what their crawls would count on several hosts is told as they tell it."""

    async def crawl(context: JobContext) -> None:
        counts = CrawlCounts()
        for number in range(5):
            host = f"{context.job.id[-6:]}-{number}.example"
            counts.note_processed(host, "scrubjay")
            counts.note_inserted(host)
            counts.note_error(host, "timeout")
        crawl_meter.tell(context.job.id, counts)

    changed = settings.model_copy(update={"worker_concurrency": 64})
    async with open_workshop(changed, JobKind(name="crawl", handler=crawl)) as workshop, workshop.working():
        jobs = [await workshop.submit("crawl", {"spec": {}}) for _ in range(1000)]

        async def finished() -> bool:
            page = await workshop.jobs.page(workshop.who, state=JobState.COMPLETED, limit=1)
            return page.total == len(jobs)

        await wait_until(finished, "a thousand jobs are done", seconds=100, pause=0.2)
    async with open_house(settings) as house:
        key = await house.key()
        for place in ("/api/v1/health", "/api/v1/stats", "/api/v1/jobs", "/v1.0/crawlplans", "/openapi.json"):
            await house.ask("GET", place, key)
        answer = await house.ask("GET", "/metrics", key)
    lines = answer.text.splitlines()
    assert len(lines) < 2000
    assert sum(line.startswith("crawler_job_duration_seconds_count{") for line in lines) > 10
    assert sum(line.startswith("crawler_extract_errors_total{") for line in lines) > 100
