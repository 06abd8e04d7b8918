"""Puts the parts of this room together."""

from datetime import timedelta

from scrubjay.connectors.web_job import WebCrawler
from scrubjay.jobs.signals import JobSignals
from scrubjay.model.clock import utc_now
from scrubjay.watch.analysis import open_scorer
from scrubjay.watch.desk import NewsDesk
from scrubjay.watch.issue import Rules
from scrubjay.watch.poll import Clock, Poller
from scrubjay.watch.stories import StoryBook
from scrubjay.watch.trigger import PlanDestination, Trigger
from scrubjay.watch.watcher import Watcher


def open_watcher(
    crawler: WebCrawler, signals: JobSignals, plan_destination: PlanDestination, clock: Clock = utc_now
) -> tuple[Watcher, Poller]:
    """What polls, and what it polls with; the poller is to be closed."""
    settings, database = crawler.settings, crawler.database
    rules = Rules(
        book=StoryBook(
            breaking_sources=settings.watch_breaking_sources,
            window=timedelta(seconds=settings.watch_breaking_window_seconds),
        ),
        trigger=Trigger(database, settings, signals, plan_destination),
        threshold=settings.watch_score_threshold,
        debounce=timedelta(seconds=settings.watch_debounce_seconds),
    )
    desk = NewsDesk(database, open_scorer(settings.watch_scorer), rules)
    poller = Poller(crawler, desk, clock)
    return Watcher(database, settings, poller, desk), poller
