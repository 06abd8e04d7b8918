"""`scrubjay crawl`: crawl sites into the data folder, watch it happen, and take the pages along."""

import asyncio
import signal
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live

from scrubjay.cli.context import console, print_json, run, working
from scrubjay.cli.crawl_options import (
    Auth,
    Bearer,
    Concurrency,
    DelayMs,
    Exclude,
    ExtentOption,
    Extraction,
    Header,
    HostConcurrency,
    IgnoreRobots,
    Include,
    Keyword,
    MaxDepth,
    MaxPages,
    MaxSeconds,
    RateLimit,
    Shards,
    Sitemaps,
    StrategyOption,
    Timeout,
    UserAgent,
    read_auth,
    read_headers,
)
from scrubjay.cli.crawl_view import show_crawl, show_summary
from scrubjay.cli.document_options import CollectionName, TagNames
from scrubjay.errors import Conflict, NotFound
from scrubjay.model.crawl_spec import CrawlMode, CrawlSpec, CrawlStrategy, Extent, read_spec
from scrubjay.model.destination import Destination
from scrubjay.model.job import FINISHED_STATES, Job, JobRequest, JobState

if TYPE_CHECKING:
    from scrubjay.bootstrap import Scrubjay
    from scrubjay.model.tenant import Principal

LOOK_SECONDS = 0.25
INTERRUPTED = 130


def crawl(
    urls: Annotated[list[str], typer.Argument(help="Where to start; several addresses make one crawl.")],
    depth: MaxDepth = 10,
    max_pages: MaxPages = 1000,
    max_seconds: MaxSeconds = None,
    strategy: StrategyOption = CrawlStrategy.BFS,
    keyword: Keyword = None,
    score_threshold: Annotated[
        float, typer.Option(min=0, max=1, help="best-first: do not follow links that score less (0 to 1).")
    ] = 0.0,
    extent: ExtentOption = Extent.HOST,
    include: Include = None,
    exclude: Exclude = None,
    sitemaps: Sitemaps = True,
    ignore_robots: IgnoreRobots = False,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="One page after the other, in the exact order of the strategy.")
    ] = False,
    concurrency: Concurrency = 16,
    host_concurrency: HostConcurrency = 8,
    delay_ms: DelayMs = 100,
    rate: RateLimit = None,
    shards: Shards = None,
    timeout: Timeout = 30.0,
    user_agent: UserAgent = None,
    header: Header = None,
    auth: Auth = None,
    bearer: Bearer = None,
    extraction: Extraction = "markdown",
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
        bool, typer.Option("--refresh", help="Fetch and extract anew what has not changed since the last crawl.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the last crawl from these addresses that did not finish.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
) -> None:
    """Crawl sites, and make their pages findable with `scrubjay search`.

    What has not changed since the last crawl from the same addresses costs one request and is not fetched again.
    Stop with Ctrl-C: what is done stays done, and `--resume` goes on from there, also after a crash.
    """
    spec = read_spec(
        {
            "start_urls": urls,
            "max_depth": depth,
            "max_pages": max_pages,
            "max_seconds": max_seconds,
            "strategy": strategy,
            "keywords": keyword or [],
            "score_threshold": score_threshold,
            "extent": extent,
            "include": include or [],
            "exclude": exclude or [],
            "use_sitemaps": sitemaps,
            "respect_robots": not ignore_robots,
            "mode": CrawlMode.SEQUENTIAL if sequential else CrawlMode.CONCURRENT,
            "concurrency": concurrency,
            "host_concurrency": host_concurrency,
            "delay_ms": delay_ms,
            "rate_limit_rps": rate,
            "timeout_seconds": timeout,
            "user_agent": user_agent,
            "headers": read_headers(header),
            "auth": read_auth(auth, bearer),
            "extraction": extraction,
            "keep_originals": keep_originals or warc is not None,
            "refresh": refresh,
            **({} if shards is None else {"shards": shards}),
        }
    )
    into = _Into(collection, tuple(tag or ())) if index else None
    job = run(lambda: _Crawl(spec, _Targets(out, jsonl, warc), resume, into, live=not (quiet or as_json)).run())
    if as_json:
        print_json({"job_id": job.id, "state": job.state, "error": job.error, **(job.result or job.progress)})
    else:
        show_summary(job)
    raise typer.Exit(_exit_code(job))


def _exit_code(job: Job) -> int:
    if job.state is JobState.PAUSED:
        return INTERRUPTED
    facts: dict[str, Any] = dict(job.result or {})
    return 0 if job.state is JobState.COMPLETED and facts.get("pages", 0) > 0 else 1


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
        self._interrupts = 0

    async def run(self) -> Job:
        loop = asyncio.get_running_loop()
        async with working() as (jay, who):
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            loop.add_signal_handler(signal.SIGTERM, self._interrupt)
            job = await self._find_or_start(jay, who)
            job = await self._watch(jay, who, job)
            if self._targets.any and job.state in FINISHED_STATES | {JobState.PAUSED}:
                await self._export(jay, who, job)
        return job

    def _interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            # The second time is meant: the frontier is safe in the database whatever happens.
            sys.stderr.write("\nStopped at once; --resume goes on.\n")
            sys.stderr.flush()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

    async def _find_or_start(self, jay: "Scrubjay", who: "Principal") -> Job:
        unfinished = await jay.crawls.find_unfinished(who, self._spec)
        if not self._resume:
            if unfinished is not None and unfinished.state in (JobState.PENDING, JobState.RUNNING):
                self._say("A crawl from these addresses is under way; joining it.")
                return unfinished
            into = None if self._into is None else await self._into.destination(jay, who)
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
                if self._interrupts and not asked:
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
