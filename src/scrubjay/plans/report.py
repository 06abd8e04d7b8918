"""The report of a run: what became of every item, why, and what to do about it. Every door reads its state off this.

Rows of `storage/operation_items.py` are the items; items that did not change have no row and are only counted. A run
that got nothing has failed. A run that a limit cut is not complete.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scrubjay.model.extraction import TEXT_LIMITS
from scrubjay.model.plan import Change, OperationItem, WorkState
from scrubjay.model.source import ItemProblem


class ItemOutcome(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    FAILED = "failed"
    DENIED = "denied"  # robots.txt, a login, a block list or the egress guard does not allow it
    SKIPPED = "skipped"  # left out on purpose: noindex, an unsupported type, a deletion that is withheld
    CUT = "cut"  # a limit of the run left it out


GOT = frozenset({ItemOutcome.ADDED, ItemOutcome.CHANGED, ItemOutcome.UNCHANGED, ItemOutcome.REMOVED})
_TAKEN = {Change.ADDED: ItemOutcome.ADDED, Change.CHANGED: ItemOutcome.CHANGED, Change.DELETED: ItemOutcome.REMOVED}
_DENIED = frozenset(
    {
        "robots_disallowed", "blocked_host", "blocked_address", "blocked_page", "blocked", "login_wall", "unauthorized",
        "forbidden", "http_401", "http_403", "http_407",
    }
)  # fmt: skip
_SKIPPED = frozenset({"noindex", "unsupported_type", "redirect"})
_GONE = frozenset({"http_404", "http_410", "soft_404", "gone"})
_CUT = frozenset({"max_pages", "max_seconds", "max_pages_per_host"})
# Denied, and yet objects that should have been taken in: the source lists them, or another page came in their place.
_EXPECTED = frozenset({"login_wall", "blocked_page", "unauthorized", "forbidden"})

_NEXT_STEPS: Mapping[str, str] = {
    "archive_bomb": "Exclude the archive by a pattern, or publish its files one by one.",
    "bad_answer": "Common Crawl answered with malformed data; run again later, or choose another source of addresses.",
    "bad_canvas": "Open the page in SharePoint and save it again; its content is damaged.",
    "bad_encoding": "Report it to the site's owner; the compressed answer is damaged.",
    "bad_redirect": "Fix the redirect at the site; it leads to an invalid address.",
    "bad_xml": "Check the file at its source; its XML is not well-formed.",
    "blocked": "The site blocks crawlers; use a proxy or the site's API, or crawl more slowly.",
    "blocked_address": "Allow the network with SCRUBJAY_ALLOWED_PRIVATE_NETWORKS if it is yours.",
    "blocked_host": "Unblock the host in the host settings.",
    "blocked_page": "The site blocks crawlers; use a proxy or the site's API, or crawl more slowly.",
    "blocks_per_page": "The text was cut; raise max_blocks_per_page.",
    "broken_file": "Check the file at its source; it cannot be opened.",
    "browser_crashed": "Run again; if the browser crashes again, crawl the page without it (--extract markdown).",
    "browser_timeout": "Raise the timeout, or crawl the page without the browser (--extract markdown).",
    "characters_per_page": "The text was cut; raise max_characters_per_page.",
    "circuit_open": "The host failed repeatedly; run again after its timeout, or reset it in the host settings.",
    "connection": "Check that the host is up and reachable, then run again.",
    "dns": "Check the spelling of the host name.",
    "empty": "If a script makes the page, crawl it with the browser (--extract browser).",
    "empty_page": "If a script makes the page, crawl it with the browser (--extract browser).",
    "encrypted": "Remove the file's password at its source.",
    "extraction": "Check the file at its source, or exclude it by a pattern.",
    "extraction_crashed": "Check the file at its source, or exclude it by a pattern; report it as a bug.",
    "extraction_error": "Check the file at its source, or exclude it by a pattern; report it as a bug.",
    "extraction_memory": "Exclude the file by a pattern; extracting it needs too much memory.",
    "extraction_timeout": "Raise SCRUBJAY_EXTRACT_SECONDS, or exclude the page by a pattern.",
    "extraction_unavailable": "Run again; if it fails again, read the server's log for why extraction does not start.",
    "forbidden": "Check the credentials, or ask the source's owner for access.",
    "gone": "The source no longer has it; nothing to do.",
    "http_error": "Open the address in a browser, and check the URL.",
    "incomplete": "Run again; if the answer breaks off again, check the server or a proxy in between.",
    "ingest": "Read the server's log for the cause, fix it, then retry the failed items.",
    "internal": "Read the server's log and report it as a bug, then retry the failed items.",
    "invalid_url": "Fix the link or the address; it cannot be fetched as it is written.",
    "links_per_page": "Not all links of the page were followed; raise max_links_per_page.",
    "llm_failed": "Check the model's endpoint, key and name, then retry the failed items.",
    "locked": "Check the file or site in SharePoint; an administrator or another user has locked it.",
    "login_wall": "Give credentials (--auth, --bearer, or the plan's authentication).",
    "max_pages": "Raise max_pages, or retry what was cut.",
    "max_pages_per_host": "Raise max_pages_per_host, or retry what was cut.",
    "max_seconds": "Raise max_seconds, or retry what was cut.",
    "missing": "The next complete run removes it if it is still missing; confirm deletions to remove it at once.",
    "noindex": "The page asks not to be indexed; ignore robots rules only if the site is yours.",
    "not_a_feed": "Check the URL: it must be that of an RSS, Atom or JSON feed.",
    "not_a_folder": "Check the path in the plan; it must be a folder.",
    "not_a_page": "Crawl it without the browser (--extract markdown); it is a download.",
    "not_a_sitemap": "Check the URL of the sitemap.",
    "not_configured": "Complete the credentials in the plan's or the server's settings.",
    "not_found": "Check the path or the link; nothing is there.",
    "not_s3": "Check the endpoint and the bucket's name; the answer is not one of S3.",
    "not_sharepoint": "Check the site's URL; the answer is not one of SharePoint.",
    "protocol": "Report it to the site's owner; the answer is not valid HTTP.",
    "proxy": "Check the proxy's address and credentials, or choose another proxy.",
    "redirect": "Allow redirects in the plan if the target should be crawled.",
    "redirect_loop": "Report it to the site's owner; the address never answers.",
    "robots_disallowed": "Ask the site's owner, or ignore robots.txt if the site is yours.",
    "robots_unreachable": "Check that the host name is right and the host is up; its robots.txt did not answer.",
    "server_error": "The server failed; run again later.",
    "soft_404": "The page says that it does not exist; fix or remove the link to it.",
    "source_unreadable": "Check the plan's source settings and credentials, and that the server may read them.",
    "strategy_unavailable": "Install the package of this extraction method, or choose another one (--extract).",
    "threshold": "Filter the library by an indexed column, or split it.",
    "throttled": "Crawl more slowly (--delay-ms), or run again later.",
    "timeout": "Raise the timeout, or run again later.",
    "tls": "Check the host's certificate.",
    "too_deep": "Exclude it by a pattern; it is nested too deeply to be parsed.",
    "too_large": "Raise the maximum page size.",
    "too_many_redirects": "Link to the final address, or raise max_redirects.",
    "unauthorized": "Give credentials (--auth, --bearer, or the plan's authentication), or renew them.",
    "unknown": "Open the address in a browser, then run again.",
    "unreadable": "Check the file and its permissions at the source.",
    "unsupported_type": "This content type cannot be read; exclude it by a pattern.",
    "unwritable": "Check the free space and the permissions of the data folder, then run again.",
    "wrong_region": "Set the bucket's region in the plan.",
}
_NEXT_STEPS_BY_STATUS = {
    401: "Give credentials (--auth, --bearer, or the plan's authentication).",
    403: "Check the credentials, or ask the site's owner for access.",
    404: "Fix or remove the link to it.",
    410: "The page was removed on purpose; remove the link to it.",
    429: "Crawl more slowly (--delay-ms, --rate).",
}
DEFAULT_NEXT_STEP = "Run again; if it fails the same way, check the address in a browser."
MAX_REASONS = 50


def next_step(reason: str | None) -> str | None:
    if reason is None:
        return None
    if reason.startswith("http_") and reason[5:].isdigit():
        status = int(reason[5:])
        default = "The server failed; run again later." if status >= 500 else "Check the address."
        return _NEXT_STEPS_BY_STATUS.get(status, default)
    return _NEXT_STEPS.get(reason, DEFAULT_NEXT_STEP)


def state_of(problem: ItemProblem) -> WorkState:
    """What a problem that the source reported makes of an item."""
    if problem.reason in _DENIED:
        return WorkState.DENIED
    if problem.reason in _CUT:
        return WorkState.CUT
    return WorkState.SKIPPED if problem.reason in _SKIPPED else WorkState.FAILED


def is_warning(state: WorkState, reason: str | None) -> bool:
    """Whether specification 000 counts it as a warning: a link that answers with 4xx or 5xx is no failed object."""
    if state not in (WorkState.FAILED, WorkState.DENIED) or reason is None:
        return False
    return reason.startswith("http_") or reason in ("soft_404", "gone")


def is_failed_object(state: WorkState, reason: str | None) -> bool:
    """Whether an object should have been taken in and was not. What policy denies or leaves out is none."""
    if state is WorkState.DENIED:
        return reason in _EXPECTED
    return state is WorkState.FAILED and not is_warning(state, reason)


def outcome_of(change: Change, state: WorkState) -> ItemOutcome | None:
    """What became of an item; nothing while it is still waiting."""
    if state is WorkState.DONE:
        return _TAKEN.get(change, ItemOutcome.UNCHANGED)
    if state is WorkState.PENDING:
        return None
    return ItemOutcome(state.value)


@dataclass(frozen=True, slots=True)
class ReportItem:
    """One line of a report."""

    key: str
    outcome: ItemOutcome
    reason: str | None
    message: str | None
    next_step: str | None
    http_status: int | None
    attempts: int
    document_id: str | None

    @classmethod
    def of(cls, item: OperationItem) -> "ReportItem | None":
        outcome = outcome_of(item.change, item.state)
        if outcome is None:
            return None
        return cls(
            key=item.key,
            outcome=outcome,
            reason=item.reason,
            message=item.error,
            # A removed item keeps "missing" as its reason, and needs nothing.
            next_step=None if outcome is ItemOutcome.REMOVED else next_step(item.reason),
            http_status=item.http_status,
            attempts=item.attempts,
            document_id=item.document_id,
        )

    def record(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "outcome": str(self.outcome),
            "reason": self.reason,
            "message": self.message,
            "next_step": self.next_step,
            "http_status": self.http_status,
            "attempts": self.attempts,
            "document_id": self.document_id,
        }


# One group of items: change, state, reason → number of items, and their bytes.
ItemTally = Mapping[tuple[Change, WorkState, str | None], tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A run in numbers."""

    counts: Mapping[ItemOutcome, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)  # of what was not taken in
    objects_failed: int = 0  # items that should have been taken in and were not (specification 000)
    warnings: int = 0  # links that answered with an error
    lost: int = 0  # items that failed or were refused, without those that are gone
    unwanted: int = 0  # new or changed, but the plan takes in no additions or no updates
    limits: Mapping[str, int] = field(default_factory=dict)  # limits that were hit, and how often
    is_complete: bool = False
    problems: Sequence[str] = ()  # why it is not complete

    @classmethod
    def read(
        cls,
        tally: ItemTally,
        *,
        unchanged: int = 0,
        limits: Mapping[str, int] | None = None,
        is_complete: bool = False,
        problems: Sequence[str] = (),
    ) -> "RunReport":
        counts = dict.fromkeys(ItemOutcome, 0)
        reasons: dict[str, int] = {}
        cut: dict[str, int] = {}
        warnings = unwanted = failed = lost = 0
        for (change, state, reason), (number, _) in tally.items():
            outcome = outcome_of(change, state)
            if outcome is None:
                continue
            counts[outcome] += number
            unwanted += number if outcome is ItemOutcome.SKIPPED and change in (Change.ADDED, Change.CHANGED) else 0
            if outcome not in GOT and reason is not None:
                reasons[reason] = reasons.get(reason, 0) + number
            if outcome in GOT and reason is not None and reason in TEXT_LIMITS:
                cut[reason] = cut.get(reason, 0) + number
            failed += number if is_failed_object(state, reason) else 0
            warnings += number if is_warning(state, reason) else 0
            if reason not in _GONE and (is_failed_object(state, reason) or is_warning(state, reason)):
                lost += number
        counts[ItemOutcome.UNCHANGED] += unchanged
        limits = limits or {}
        more = [
            f"The limit {name} cut the text of {number:,} items." for name, number in cut.items() if name not in limits
        ]
        return cls(
            counts=counts,
            reasons=reasons,
            objects_failed=failed,
            warnings=warnings,
            lost=lost,
            unwanted=unwanted,
            limits={**cut, **limits},
            is_complete=is_complete and not cut,
            problems=(*problems, *more),
        )

    @classmethod
    def load(cls, stored: Mapping[str, Any] | None) -> "RunReport | None":
        if not stored:
            return None
        counts = {outcome: int((stored.get("counts") or {}).get(outcome, 0)) for outcome in ItemOutcome}
        return cls(
            counts=counts,
            reasons=dict(stored.get("reasons") or {}),
            objects_failed=int(stored.get("objects_failed") or 0),
            warnings=int(stored.get("warnings") or 0),
            lost=int(stored.get("lost") or 0),
            unwanted=int(stored.get("unwanted") or 0),
            limits=dict(stored.get("limits") or {}),
            is_complete=bool(stored.get("complete")),
            problems=tuple(stored.get("problems") or ()),
        )

    def dump(self) -> dict[str, Any]:
        most = sorted(self.reasons.items(), key=lambda entry: -entry[1])[:MAX_REASONS]
        return {
            "counts": {str(outcome): number for outcome, number in self.counts.items()},
            "reasons": dict(most),
            "objects_failed": self.objects_failed,
            "warnings": self.warnings,
            "lost": self.lost,
            "unwanted": self.unwanted,
            "limits": dict(self.limits),
            "complete": self.is_complete,
            "problems": list(self.problems),
        }

    @property
    def got(self) -> int:
        return sum(number for outcome, number in self.counts.items() if outcome in GOT)

    @property
    def failed(self) -> int:
        return self.counts.get(ItemOutcome.FAILED, 0)

    @property
    def denied(self) -> int:
        return self.counts.get(ItemOutcome.DENIED, 0)

    @property
    def has_faults(self) -> bool:
        return bool(self.failed or self.denied)

    def failure(
        self, max_failed_share: float, first: OperationItem | None = None, *, counts_warnings: bool = False
    ) -> str | None:
        """Why the run as a whole has failed, in one sentence; nothing when it has not.

        With `counts_warnings`, links that answered with an error other than "gone" count as failed.
        """
        if not self.got and not self.unwanted:
            if first is not None:
                return f"Nothing was read. {first.key}: {first.error or first.reason}"
            return "Nothing was read: the source has no items that this plan takes in."
        failed = self.lost if counts_warnings else self.objects_failed
        if failed / max(1, failed + self.got) > max_failed_share:
            return (
                f"{failed:,} of {failed + self.got:,} items failed, "
                f"more than the {max_failed_share:.0%} that the plan allows."
            )
        return None

    def summary(self) -> str:
        """One line for logs and terminals: `12 added, 3 unchanged, 1 failed`."""
        told = [f"{number:,} {outcome}" for outcome, number in self.counts.items() if number]
        return ", ".join(told) or "no items"


def report_items(items: Iterable[OperationItem]) -> list[ReportItem]:
    return [line for item in items if (line := ReportItem.of(item)) is not None]
