"""The table of faults is what was measured, between its markers, and nothing else of the page changes."""

import json
from collections import Counter
from pathlib import Path

from tests.chaos.day import Day
from tests.chaos.report import BEGIN, END, describe, note, write_between_markers
from tests.chaos.trial import Recovery


def test_a_run_goes_through_json_into_the_page(tmp_path: Path) -> None:
    recovery = Recovery(
        fault="Redis: kill", lasted_seconds=3.1, goes_on_seconds=0.25, settled_seconds=2.04,
        answers={"search 200": 7, "documents 201": 2, "documents 503": 1, "search ReadError": 4}, run="Success",
        runs_after=1,
    )  # fmt: skip
    day = Day(hours=2, faults=Counter({"Redis: kill": 3}), runs=Counter(Success=4, Failed=1), settle_seconds=[1.0, 4.0])
    day.answers, day.seconds = Counter({"search 200": 5, "documents 503": 2}), 90.0
    run = json.loads(json.dumps(note([recovery], day, seed=8, missing=None)))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_between_markers(page, describe(run))
    text = page.read_text()
    assert "| Redis: kill | 3 s | 0.2 s | 2.0 s | 1 × 503, 9 × good, 4 × no answer | Success, then 1 more |" in text
    assert (
        "**2 simulated hours** took 1.5 minutes: 3 faults of 1 kinds, 5 runs of the plan (1 Failed, 4 Success)" in text
    )
    assert "7 requests to the API (2 of them refused or unanswered" in text
    assert "with seed 8" in text
    assert (text.startswith("before\n"), text.endswith(f"{END}\nafter\n"), "old" in text) == (True, True, False)
