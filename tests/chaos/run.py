"""The whole chaos suite: every fault by itself, then a day of them. Minutes; `make test-all` has a selection.

python -m tests.chaos.run [--hours 24] [--no-table] [--only s3] [--seed N] [--out docs/operations.md | faults.json]
"""

import argparse
import asyncio
import json
import logging
import random
import signal
from pathlib import Path

from tests.chaos.arena import open_arena
from tests.chaos.day import Day, spend_day
from tests.chaos.faults import all_faults
from tests.chaos.report import describe, note, write_between_markers
from tests.chaos.traffic import flowing
from tests.chaos.trial import Recovery, endure


async def suffer(options: argparse.Namespace) -> tuple[list[Recovery], Day | None, str | None]:
    recoveries: list[Recovery] = []
    async with open_arena(options.seed) as arena, flowing(arena, options.seed) as traffic:
        if options.table:
            faults = [fault for fault in all_faults(arena) if options.only in str(fault)]
            for fault in [None, *faults]:
                print(fault or "nothing", end=": ", flush=True)
                recovery = await endure(arena, traffic, fault)
                recoveries.append(recovery)
                print(f"{recovery.goes_on_seconds:.1f} s, {recovery.settled_seconds:.1f} s, {recovery}", flush=True)
        traffic.answers.clear()
        chance = random.Random(options.seed)
        day = await spend_day(arena, traffic, chance, options.hours, options.minutes) if options.hours else None
        return recoveries, day, arena.no_disks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=24, help="simulated; 0 leaves the day out")
    parser.add_argument("--minutes", type=float, default=60, help="no hour begins after so many minutes of ours")
    parser.add_argument("--table", action=argparse.BooleanOptionalAction, default=True, help="every fault by itself")
    parser.add_argument("--only", default="", help="faults with this in their names")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--out", type=Path, help="a page with markers, or a .json file")
    options = parser.parse_args()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(10**6)
    # Asked to end in either way, it takes everything down that it started.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    print(f"seed {options.seed}", flush=True)
    recoveries, day, missing = asyncio.run(suffer(options))
    found = note(recoveries, day, seed=options.seed, missing=missing)
    if options.out is None:
        print(describe(found))
    elif options.out.suffix == ".json":
        options.out.write_text(json.dumps(found, indent=1))
    else:
        write_between_markers(options.out, describe(found))


if __name__ == "__main__":
    main()
