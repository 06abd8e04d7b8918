"""What runs found, as the table in docs/operations.md.

python -m tests.chaos.report faults.json day.json --page docs/operations.md
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.chaos.day import Day
from tests.chaos.trial import Recovery

BEGIN, END = "<!-- faults -->", "<!-- /faults -->"


def note(recoveries: Sequence[Recovery], day: Day | None, *, seed: int, missing: str | None) -> dict[str, Any]:
    """A run as JSON can hold it, with what one must know to judge its figures."""
    return {
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seed": seed,
        "cores": os.cpu_count(),
        "load": list(os.getloadavg()),
        "missing": missing,
        "faults": [asdict(each) for each in recoveries],
        "day": None if day is None else _plain(day),
    }


def _plain(day: Day) -> dict[str, Any]:
    # `asdict` makes counters of pairs out of counters.
    return {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(day).items()}


def describe(run: Mapping[str, Any]) -> str:
    load = ", ".join(f"{each:.1f}" for each in run["load"])
    about = (
        f"Measured on {run['measured_at']} with seed {run['seed']}, on {run['cores']} cores with a load of {load} "
        "(over 1, 5 and 15 minutes, at the end)"
    )
    lines = []
    if run["faults"]:
        lines += [f"{about}:", "", *_table([Recovery(**each) for each in run["faults"]])]
    if run["missing"]:
        lines += [f"Full disks were left out: {run['missing']}.", ""]
    if run["day"]:
        lines += [f"{_of_day(Day(**run['day']))} {about}.", ""]
    return "\n".join(lines)


def _table(recoveries: Sequence[Recovery]) -> list[str]:
    rows = [
        f"| {each.fault} | {each.lasted_seconds:.0f} s | {each.goes_on_seconds:.1f} s | {each.settled_seconds:.1f} s | "
        f"{_answers(each.answers)} | {each.run}{f', then {each.runs_after} more' if each.runs_after else ''} |"
        for each in recoveries
    ]
    return [
        "| fault in the middle of a run | lasted | added and found again | settled | answers meanwhile | the run |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def _answers(answers: Mapping[str, int]) -> str:
    """Good answers, refusals, and none at all."""
    kinds: Counter[str] = Counter()
    for answer, count in answers.items():
        status = answer.rpartition(" ")[2]
        kinds["good" if status in ("200", "201") else status if status.isdigit() else "no answer"] += count
    return ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items())) or "none came"


def _of_day(day: Day) -> str:
    slowest = max(day.settle_seconds, default=0.0)
    middle = sorted(day.settle_seconds)[len(day.settle_seconds) // 2] if day.settle_seconds else 0.0
    bad = sum(count for answer, count in day.answers.items() if not answer.endswith((" 200", " 201")))
    return (
        f"**{day.hours} simulated hours** took {day.seconds / 60:.1f} minutes: {sum(day.faults.values())} faults of "
        f"{len(day.faults)} kinds, {sum(day.runs.values())} runs of the plan ({_counts(day.runs)}) over a site that "
        f"changed before each, {sum(day.answers.values())} requests to the API ({bad} of them refused or unanswered, "
        f"none answered with 500), {day.told} webhook calls. After every hour everything settled, after {middle:.1f} s "
        f"in the median and {slowest:.1f} s at most, and site, ledger, documents and index agreed: no document lost, "
        "none doubled, no event missing."
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def write_between_markers(page: Path, text: str) -> None:
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--page", type=Path, required=True)
    options = parser.parse_args()
    write_between_markers(options.page, "\n".join(describe(json.loads(run.read_text())) for run in options.runs))


if __name__ == "__main__":
    main()
