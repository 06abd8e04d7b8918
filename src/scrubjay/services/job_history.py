"""What crawls did over time: how fast each was, how the hosts answered, and what went wrong most."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select

from scrubjay.model.job import FINISHED_STATES, JobState
from scrubjay.model.tenant import Principal, Scope
from scrubjay.plans.begin import KIND
from scrubjay.services.access import require
from scrubjay.storage.database import Database
from scrubjay.storage.jobs import JobRow


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCrawl:
    """A crawl that is over, by a plan or by hand."""

    job_id: str
    kind: str
    plan_id: str | None
    state: JobState
    started_at: datetime
    finished_at: datetime
    pages: int
    failed: int
    pages_per_second: float


@dataclass(slots=True)
class HostRecord:
    pages: int = 0
    failed: int = 0
    bytes: int = 0

    @property
    def success_percent(self) -> float:
        asked = self.pages + self.failed
        return 100 * self.pages / asked if asked else 100.0


@dataclass(frozen=True, slots=True)
class History:
    crawls: Sequence[PastCrawl]  # by the time they finished, oldest first
    hosts: Mapping[str, HostRecord] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)


class JobHistoryService:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def recent(self, principal: Principal, *, limit: int = 200) -> History:
        """The last crawls that are over, and what they amount to together."""
        require(principal, Scope.READ)
        row = JobRow
        statement = (
            select(
                row.id, row.kind, row.state, row.started_at, row.finished_at, row.payload, row.result, row.checkpoint
            )
            .where(
                row.tenant_id == principal.tenant_id,
                row.kind == KIND,
                row.state.in_(FINISHED_STATES),
                row.started_at.is_not(None),
                row.finished_at.is_not(None),
            )
            .order_by(row.created_at.desc(), row.id.desc())
            .limit(limit)
        )
        async with self._database.reading() as connection:
            found = (await connection.execute(statement)).all()
        crawls: list[PastCrawl] = []
        hosts: dict[str, HostRecord] = {}
        errors: Counter[str] = Counter()
        for each in reversed(found):
            tally = tally_of(each.result, each.checkpoint)
            crawls.append(_past_crawl(each, tally))
            errors.update({name: int(count) for name, count in (tally.get("errors") or {}).items()})
            for host, numbers in (tally.get("hosts") or {}).items():
                record = hosts.setdefault(host, HostRecord())
                record.pages += int(numbers.get("pages") or 0)
                record.failed += int(numbers.get("failed") or 0)
                record.bytes += int(numbers.get("bytes") or 0)
        crawls.sort(key=lambda each: (each.finished_at, each.job_id))  # the charts' x values must ascend
        return History(crawls, hosts, dict(errors.most_common()))


def tally_of(result: Mapping[str, Any] | None, checkpoint: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What a crawl counted: in its result, or, where that is of a plan's run, in what it last remembered."""
    if result and "hosts" in result:
        return result
    tally: Mapping[str, Any] = (checkpoint or {}).get("tally") or {}
    return tally


def _past_crawl(row: Any, tally: Mapping[str, Any]) -> PastCrawl:
    pages, failed = int(tally.get("pages") or 0), int(tally.get("failed") or 0)
    seconds = float(tally.get("seconds") or 0) or (row.finished_at - row.started_at).total_seconds()
    return PastCrawl(
        job_id=row.id,
        kind=row.kind,
        plan_id=row.payload.get("plan_id"),
        state=row.state,
        started_at=row.started_at,
        finished_at=row.finished_at,
        pages=pages,
        failed=failed,
        pages_per_second=round((pages + failed) / max(seconds, 0.1), 2),
    )
