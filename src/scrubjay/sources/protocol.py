"""The protocol of connectors: where content comes from, one class per kind of source.

A connector lists what its source has, with whatever tells whether an item changed, and reads items when asked. It
decides nothing: what is new, changed or gone is found out above, against the ledger. Built-in connectors come in
through the same entry points (`scrubjay.connectors`) as anybody else's.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from scrubjay.crawler.web_crawler import WebCrawler
from scrubjay.model.plan import Plan
from scrubjay.model.source import Connectivity, SourceContent, SourceItem
from scrubjay.queue.context import JobContext


class Connector(Protocol):
    """One plan's source, opened for one run."""

    @property
    def problems(self) -> list[str]:
        """Why the last listing may lack something that is there; what is missing from it is then not gone."""

    async def check(self) -> Connectivity:
        """Whether the source can be reached with these settings; changes nothing."""

    def enumerate(self, context: JobContext, limit: int | None = None) -> AsyncIterator[SourceItem]:
        """Everything that the source has, in any order, each key once; at most `limit` for a look at it.

        Raises a ScrubjayError when the source cannot be listed. Stops at the context's checkpoints.
        """

    async def read(self, item: SourceItem) -> SourceContent:
        """An item's content, as it is now. Raises FetchFailed or ExtractionFailed for this item's sake only."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What a connector may use: the one way out, extraction, storage and secrets, behind one object."""

    crawler: WebCrawler

    def unseal(self, plan: Plan, name: str) -> str | None:
        """A secret of a plan's settings, in the clear."""
        sealed = plan.repository_settings.get(name)
        return None if not sealed else self.crawler.secrets.unseal(str(sealed), context=secret_context(plan.id, name))


def secret_context(plan_id: str, name: str) -> str:
    """A sealed secret can be opened for its own plan and field only."""
    return f"plan:{plan_id}:{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorType:
    """What an entry point of the group `scrubjay.connectors` names: a kind of source, and how to open one."""

    name: str  # the plan's repository type
    settings: type[BaseModel]  # checks a plan's repository settings
    secrets: frozenset[str] = frozenset()  # the settings that are sealed, and never shown
    required: tuple[str, ...] = ()  # the settings without which a run cannot start
    skips_system_files: bool = True  # names like `thumbs.db` are no content there
    lists_everything: bool = True  # what it does not list is gone; a feed shows its newest entries only
    streams: bool = False  # items are found while listing goes on, and are read in batches (`sources/web.py`)
    open: Callable[[Plan, Tools], Connector]

    def read_settings(self, values: Mapping[str, Any]) -> BaseModel:
        return self.settings.model_validate(dict(values))
