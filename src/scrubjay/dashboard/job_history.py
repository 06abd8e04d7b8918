"""The history of crawls: how fast they were, how hosts answered, and what went wrong most."""

import json

from fastapi import APIRouter, Request
from starlette.responses import Response

from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking
from scrubjay.services.job_history import History

router = APIRouter(include_in_schema=False)

LOOKED_AT = 200
SHOWN_CRAWLS = 15
SHOWN_HOSTS = 50
SHOWN_ERRORS = 15
FEWEST_POINTS = 2


@router.get("/jobs/history")
async def show_history(request: Request, jay: Jay, visitor: Looking) -> Response:
    """The last crawls together."""
    history = await jay.job_history.recent(visitor.who, limit=LOOKED_AT)
    newest = list(reversed(history.crawls))[:SHOWN_CRAWLS]
    hosts = sorted(history.hosts.items(), key=lambda entry: -(entry[1].pages + entry[1].failed))
    return show(
        request,
        "job_history.html",
        visitor,
        history=history,
        newest=newest,
        hosts=hosts[:SHOWN_HOSTS],
        host_total=len(hosts),
        errors=list(history.errors.items())[:SHOWN_ERRORS],
        plan_names=await jay.plans.names(visitor.who, {each.plan_id for each in newest if each.plan_id}),
        rates=_rates(history),
        pages=_pages(history),
    )


def _rates(history: History) -> str | None:
    """When each crawl ended, and its pages per second, as the script that draws them wants it; nothing for few."""
    crawls = history.crawls
    if len(crawls) < FEWEST_POINTS:
        return None
    return json.dumps([_times(history), [each.pages_per_second for each in crawls]])


def _pages(history: History) -> str | None:
    crawls = history.crawls
    if len(crawls) < FEWEST_POINTS:
        return None
    return json.dumps([_times(history), [each.pages for each in crawls], [each.failed for each in crawls]])


def _times(history: History) -> list[int]:
    return [int(each.finished_at.timestamp()) for each in history.crawls]
