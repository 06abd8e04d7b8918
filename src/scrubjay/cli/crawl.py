"""`scrubjay crawl`: crawl sites into the data folder, watch it happen, and take the pages along."""

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live

from scrubjay.cli.context import console, print_json, run, working
from scrubjay.cli.crawl_options import (
    CREDENTIALS,
    EXTRACTION,
    ROBOTS,
    TIMEOUT,
    USER_AGENT,
    crawl_option,
    spec_values,
)
from scrubjay.cli.crawl_view import exit_code, show_crawl, show_problems, show_summary
from scrubjay.cli.document_options import CollectionName, TagNames
from scrubjay.cli.interrupts import INTERRUPTED, Interrupts
from scrubjay.cli.model_options import flag, with_options
from scrubjay.errors import Conflict, NotFound
from scrubjay.model.crawl_spec import CrawlSpec, read_spec
from scrubjay.model.destination import Destination
from scrubjay.model.job import FINISHED_STATES, Job, JobRequest, JobState
from scrubjay.services.reports import RunItems, problem_outcomes

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal

LOOK_SECONDS = 0.25
SHOWN_PROBLEMS = 10


@with_options(
    crawl_option("max_depth", "--depth"),
    crawl_option("max_pages", max=None),
    crawl_option("max_seconds", min=0.1, max=None),
    crawl_option("strategy"),
    crawl_option("keywords", "--keyword"),
    crawl_option("score_threshold"),
    crawl_option("extent"),
    crawl_option("include"),
    crawl_option("exclude"),
    crawl_option("use_sitemaps", "--sitemaps/--no-sitemaps"),
    ROBOTS,
    flag("sequential", "--sequential", help="One page after the other, in the exact order of the strategy."),
    crawl_option("concurrency"),
    crawl_option("host_concurrency"),
    crawl_option("delay_ms"),
    crawl_option("rate_limit_rps", "--rate", max=None),
    crawl_option("max_failed_share"),
    TIMEOUT,
    USER_AGENT,
    *CREDENTIALS,
    EXTRACTION,
)
def crawl(
    urls: Annotated[list[str], typer.Argument(help="Where to start; several addresses make one crawl.")],
    options: dict[str, Any],
    out: Annotated[Path | None, typer.Option(help="Write each page as a Markdown file into this folder.")] = None,
    jsonl: Annotated[Path | None, typer.Option(help="Write all pages into this file, one JSON object a line.")] = None,
    warc: Annotated[Path | None, typer.Option(help="Write the answers as they came into this WARC file.")] = None,
    keep_originals: Annotated[
        bool, typer.Option("--keep-originals", help="Keep the bodies as they were fetched.")
    ] = False,
    collection: CollectionName = None,
    tag: TagNames = None,
    index: Annotated[
        bool, typer.Option("--index/--no-index", help="Make the pages findable, or keep them as pages only.")
    ] = True,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Fetch and extract every page again, even if it did not change.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the last crawl from these addresses that did not finish.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
) -> None:
    """Crawl sites, and make their pages findable with `scrubjay search`.

    Exit codes: 0 everything was read, 3 some pages failed, 4 nothing was read, 130 interrupted.
    `scrubjay jobs report JOB` lists every address that failed, with the reason.

    What has not changed since the last crawl from the same addresses costs one request and is not fetched again.
    Stop with Ctrl-C: finished pages are kept, and `--resume` continues from there, also after a crash.
    """
    facts = {"start_urls": urls, "keep_originals": keep_originals or warc is not None, "refresh": refresh}
    spec = read_spec(spec_values(options) | facts)
    into = _Into(collection, tuple(tag or ())) if index else None
    crawling = _Crawl(spec, _Targets(out, jsonl, warc), resume, into, live=not (quiet or as_json))
    job = run(crawling.run)
    if as_json:
        print_json({**(job.result or job.progress), "job_id": job.id, "state": job.state, "error": job.error})
    else:
        show_summary(job)
        show_problems(job, crawling.problems)
    raise typer.Exit(_exit_code(job))


def _exit_code(job: Job) -> int:
    if job.state is JobState.PAUSED:
        return INTERRUPTED
    return exit_code(job.result)


@dataclass(frozen=True, slots=True)
class _Targets:
    """Where pages are written to besides the data folder."""

    out: Path | None
    jsonl: Path | None
    warc: Path | None

    @property
    def any(self) -> bool:
        return any((self.out, self.jsonl, self.warc))


@dataclass(frozen=True, slots=True)
class _Into:
    """Where pages are found: a collection by name, made if need be, and tags."""

    collection: str | None
    tags: tuple[str, ...]

    async def destination(self, jay: "Scrubjay", who: "Principal") -> Destination:
        if self.collection is None:
            return Destination.to(None, self.tags)
        found = await jay.collections.find_or_create(who, self.collection)
        return Destination.to(found.id, self.tags)


class _Crawl:
    """The command's own run: start or join the job, watch it, obey Ctrl-C, and export."""

    def __init__(self, spec: CrawlSpec, targets: _Targets, resume: bool, into: _Into | None, *, live: bool) -> None:
        self._into = into
        self._spec = spec
        self._targets = targets
        self._resume = resume
        self._live = live
        self._interrupts = Interrupts("Stopped at once; --resume continues.")
        self.problems: RunItems | None = None

    async def run(self) -> Job:
        async with working() as (jay, who):
            self._interrupts.listen()
            job = await self._find_or_start(jay, who)
            job = await self._watch(jay, who, job)
            if self._targets.any and job.state in FINISHED_STATES | {JobState.PAUSED}:
                await self._export(jay, who, job)
            if job.state in FINISHED_STATES:
                self.problems = await jay.reports.of_job(who, job.id, outcomes=problem_outcomes(), limit=SHOWN_PROBLEMS)
        return job

    async def _find_or_start(self, jay: "Scrubjay", who: "Principal") -> Job:
        into = None if self._into is None else await self._into.destination(jay, who)
        unfinished = await jay.crawls.find_unfinished(who, self._spec, None if into is None else into.collection_id)
        if not self._resume:
            if unfinished is not None and unfinished.state in (JobState.PENDING, JobState.RUNNING):
                self._say("A crawl from these addresses is under way; joining it.")
                return unfinished
            return await jay.crawls.start(who, self._spec, destination=into)
        if unfinished is None:
            raise NotFound("No crawl from these addresses was left unfinished; run it without --resume.")
        if unfinished.state is JobState.PAUSED:
            return await jay.jobs.make_request(who, unfinished.id, JobRequest.RESUME)
        if unfinished.state in (JobState.FAILED, JobState.CANCELLED):
            return await jay.jobs.make_request(who, unfinished.id, JobRequest.RETRY)
        return unfinished

    def _say(self, text: str) -> None:
        if self._live:
            console.print(text)

    async def _watch(self, jay: "Scrubjay", who: "Principal", job: Job) -> Job:
        """Look at the job until it is done or paused."""
        asked = False
        live = Live(show_crawl(job), console=console, refresh_per_second=4, transient=True) if self._live else None
        with live or nullcontext():
            while True:
                job = await jay.jobs.get(who, job.id)
                if live is not None:
                    live.update(show_crawl(job, stopping=asked))
                if job.state in FINISHED_STATES or job.state is JobState.PAUSED:
                    return job
                if self._interrupts.count and not asked:
                    asked = True
                    try:
                        await jay.jobs.make_request(who, job.id, JobRequest.PAUSE)
                    except Conflict:
                        continue  # it ended by itself in this moment
                await asyncio.sleep(LOOK_SECONDS)

    async def _export(self, jay: "Scrubjay", who: "Principal", job: Job) -> None:
        from scrubjay.cli.crawl_export import export_pages

        counts = await export_pages(jay, who, job, self._targets.out, self._targets.jsonl, self._targets.warc)
        for target, count in counts.items():
            self._say(f"Wrote {count:,} pages to {target}")
