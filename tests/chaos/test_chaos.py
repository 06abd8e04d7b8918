"""A selection of faults that `make test-all` has the time for; `python -m tests.chaos.run` has them all, and a day."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests import servers
from tests.chaos.arena import Arena, open_arena
from tests.chaos.faults import Fault, Harm
from tests.chaos.traffic import Traffic, flowing
from tests.chaos.trial import endure

pytestmark = [
    pytest.mark.slow, pytest.mark.postgres, pytest.mark.redis, pytest.mark.s3,
    pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module"),
]  # fmt: skip

SEED = 20261117


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[tuple[Arena, Traffic]]:
    """One cluster for all tests: it takes longer to start than a fault takes to be over."""
    try:
        async with open_arena(SEED) as arena, flowing(arena, SEED) as traffic:
            yield arena, traffic
    except servers.Missing as error:
        servers._give_up(f"needs a cluster of its own: {error}")


@pytest.mark.parametrize(
    "fault",
    [
        Fault("worker", Harm.KILL),
        Fault("api", Harm.KILL),
        Fault("postgres", Harm.KILL),
        Fault("redis", Harm.STOP),
        Fault("s3", Harm.KILL),
        Fault("site", Harm.SLOW),
    ],
    ids=str,
)
async def test_a_fault_in_the_middle_of_everything_loses_and_doubles_nothing(
    cluster: tuple[Arena, Traffic], fault: Fault
) -> None:
    recovery = await endure(*cluster, fault)
    print(recovery)
    assert recovery.settled_seconds < 120
