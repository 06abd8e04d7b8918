"""What can go wrong, with what: how each fault begins and how it is over."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import select
from tests.chaos.arena import Arena
from tests.chaos.relay import Weather

from scrubjay.errors import Unavailable
from scrubjay.model.job import JobState
from scrubjay.plans.begin import KIND
from scrubjay.storage.jobs import JobRow
from scrubjay.storage.workers import WorkerRow

SLOW_SECONDS = 0.25  # by which every piece of data is late, each way


class Harm(StrEnum):
    STOP = "stop"
    KILL = "kill"
    HANG = "hang"
    SLOW = "slow"
    FULL_DISK = "full disk"
    LOST_NETWORK = "lost network"


TARGETS = ("worker", "api", "postgres", "redis", "s3", "models", "site")
CALLED = {
    "worker": "worker", "api": "API", "postgres": "PostgreSQL", "redis": "Redis", "s3": "S3 server",
    "models": "embedding server", "site": "target site",
}  # fmt: skip
# Nobody listens at a worker: what lies between it and the rest is the network to its database.
RELAY_OF = {"worker": "postgres"}
WITH_DISK = ("worker", "postgres", "s3")


@dataclass(frozen=True)
class Fault:
    target: str
    harm: Harm

    @property
    def seconds(self) -> float:
        """How long it lasts: what hangs does so for longer than a worker may be silent."""
        return 7.0 if self.harm in (Harm.HANG, Harm.LOST_NETWORK) else 3.0

    def __str__(self) -> str:
        return f"{CALLED[self.target]}: {self.harm}"

    async def begin(self, arena: Arena) -> None:
        name = self.target
        if name == "worker" and self.harm is not Harm.FULL_DISK:
            name = await _working(arena)
        await asyncio.to_thread(_BEGIN[self.harm], arena, name)

    async def lift(self, arena: Arena) -> None:
        """The cause is gone; whatever ended is started again, but not waited for."""
        await asyncio.to_thread(_lift, arena, self)


async def _working(arena: Arena) -> str:
    """The worker that is in the middle of the plan's run, if one is."""
    mine = select(JobRow.worker_id).where(JobRow.state == JobState.RUNNING, JobRow.kind == KIND)
    try:
        async with arena.jay.database.reading() as connection:
            pids = set(await connection.scalars(select(WorkerRow.pid).where(WorkerRow.id.in_(mine))))
    except Unavailable:  # another fault has the database
        pids = set()
    workers = [name for name in arena.programs if name.startswith("worker") and arena.programs[name].is_running]
    holders = [name for name in workers if arena.programs[name].pid in pids]
    return (holders or workers or ["worker"])[0]


def all_faults(arena: Arena) -> Sequence[Fault]:
    """Every fault that makes sense. Slow and lost networks of a worker are those of its database."""
    return [Fault(target, harm) for target in TARGETS for harm in Harm if _makes_sense(arena, target, harm)]


def _makes_sense(arena: Arena, target: str, harm: Harm) -> bool:
    if harm is Harm.FULL_DISK:
        return target in WITH_DISK and target in arena.disks
    return target not in RELAY_OF or harm not in (Harm.SLOW, Harm.LOST_NETWORK)


def _turn(weather: Weather, late_seconds: float = 0.0) -> Callable[[Arena, str], None]:
    def turn(arena: Arena, target: str) -> None:
        arena.relays[target].turn(weather, late_seconds)

    return turn


_BEGIN: dict[Harm, Callable[[Arena, str], None]] = {
    Harm.STOP: lambda arena, target: arena.programs[target].stop(),
    Harm.KILL: lambda arena, target: arena.programs[target].kill(),
    Harm.HANG: lambda arena, target: arena.programs[target].freeze(),
    Harm.SLOW: _turn(Weather.SLOW, SLOW_SECONDS),
    Harm.FULL_DISK: lambda arena, target: arena.disks[target].fill(),
    Harm.LOST_NETWORK: _turn(Weather.LOST),
}


def _lift(arena: Arena, fault: Fault) -> None:
    if fault.harm in (Harm.SLOW, Harm.LOST_NETWORK):
        arena.relays[fault.target].turn(Weather.CLEAR)
    elif fault.harm is Harm.HANG:
        for name, program in arena.programs.items():
            if name.startswith(fault.target):
                program.thaw()
    elif fault.harm is Harm.FULL_DISK:
        arena.disks[fault.target].free()
        if fault.target == "s3":  # its filer takes nothing more once there was no room, until it is started again
            arena.programs["s3"].kill()
    # A full disk, or a database that is away, may have ended others too: a supervisor starts them again.
    for program in arena.programs.values():
        program.ensure()
