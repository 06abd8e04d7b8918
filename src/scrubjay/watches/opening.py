"""Puts the parts of this room together."""

from datetime import timedelta

from scrubjay.crawler.web_crawler import WebCrawler
from scrubjay.model.clock import utc_now
from scrubjay.queue.signals import JobSignals
from scrubjay.watches.analysis import open_scorer
from scrubjay.watches.desk import NewsDesk
from scrubjay.watches.issue import Rules
from scrubjay.watches.poll import Clock, Poller
from scrubjay.watches.stories import StoryBook
from scrubjay.watches.trigger import BeginCrawl, PlanDestination, WatchTrigger
from scrubjay.watches.watcher import Watcher


def open_watcher(
    crawler: WebCrawler,
    signals: JobSignals,
    plan_destination: PlanDestination,
    begin_crawl: BeginCrawl,
    clock: Clock = utc_now,
) -> tuple[Watcher, Poller]:
    """What polls, and what it polls with; the poller is to be closed."""
    settings, database = crawler.settings, crawler.database
    rules = Rules(
        book=StoryBook(
            breaking_sources=settings.watch_breaking_sources,
            window=timedelta(seconds=settings.watch_breaking_window_seconds),
        ),
        trigger=WatchTrigger(database, settings, signals, plan_destination, begin_crawl),
        threshold=settings.watch_score_threshold,
        debounce=timedelta(seconds=settings.watch_debounce_seconds),
    )
    desk = NewsDesk(database, open_scorer(settings.watch_scorer), rules)
    poller = Poller(crawler, desk, clock)
    return Watcher(database, settings, poller, desk), poller
