"""Kinds of jobs: a name, the handler that does the work, and how persistent to be about it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrubjay.errors import InvalidRequest

if TYPE_CHECKING:
    from scrubjay.queue.context import JobContext

NAME_LENGTH = 40  # with Procrastinate's prefix it is the name of a PostgreSQL channel, which has 63 at most
Handler = Callable[["JobContext"], Awaitable[Mapping[str, Any] | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    name: str
    handler: Handler
    max_retries: int = 3
    worker_limit: int | None = None  # at most so many of this kind at once in one worker
    is_waited_for: bool = False  # it is short and somebody waits: it need not wait for crawls to end
    notifies: bool = True  # its end is told to those who listen; not where somebody waits for the result anyway


class JobKinds:
    """The registry: what this process knows how to do."""

    def __init__(self, *kinds: JobKind) -> None:
        self._kinds: dict[str, JobKind] = {}
        for kind in kinds:
            self.register(kind)

    def register(self, kind: JobKind) -> None:
        if kind.name in self._kinds:
            raise ValueError(f"job kind '{kind.name}' is registered twice")
        if len(kind.name) > NAME_LENGTH:
            raise ValueError(f"the name of job kind '{kind.name}' is longer than {NAME_LENGTH} characters")
        self._kinds[kind.name] = kind

    def get(self, name: str) -> JobKind:
        try:
            return self._kinds[name]
        except KeyError:
            raise InvalidRequest(f"There is no kind of job called '{name}'.", field="kind") from None

    def notifies(self, name: str) -> bool:
        """Also of a kind that only other processes know."""
        return name not in self._kinds or self._kinds[name].notifies

    def room_of_limited(self, running: Mapping[str, int]) -> Mapping[str, int]:
        """How many more jobs of each limited kind this worker may start."""
        return {
            kind.name: kind.worker_limit - running.get(kind.name, 0)
            for kind in self._kinds.values()
            if kind.worker_limit is not None
        }

    def names_with_room(self, running: Mapping[str, int]) -> list[str]:
        """Kinds of which this worker may start one more."""
        return [
            kind.name
            for kind in self._kinds.values()
            if kind.worker_limit is None or running.get(kind.name, 0) < kind.worker_limit
        ]

    def named(self, names: Sequence[str]) -> "JobKinds":
        """The kinds with these names; without any, all."""
        return JobKinds(*(self.get(name) for name in names)) if names else self

    @property
    def waited_for(self) -> frozenset[str]:
        return frozenset(kind.name for kind in self._kinds.values() if kind.is_waited_for)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._kinds.values())
