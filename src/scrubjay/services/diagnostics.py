"""A job kind that does nothing useful, durably: for seeing that jobs run, pause, resume and survive."""

import asyncio
from collections.abc import Mapping
from typing import Any

from scrubjay.errors import JobFailedForGood
from scrubjay.queue.context import JobContext
from scrubjay.queue.kinds import JobKind

MAX_STEPS = 100_000


async def take_steps(context: JobContext) -> Mapping[str, Any]:
    """Take `steps` steps of `seconds` each; every step is checkpointed and told once as an event."""
    steps, seconds = context.payload.get("steps", 10), context.payload.get("seconds", 0.1)
    if not isinstance(steps, int) or not 0 <= steps <= MAX_STEPS:
        raise JobFailedForGood(f"steps must be a whole number from 0 to {MAX_STEPS}.")
    if not isinstance(seconds, int | float) or not 0 <= seconds <= 60:
        raise JobFailedForGood("seconds must be a number from 0 to 60.")
    for step in range(context.state.get("done", 0), steps):
        await asyncio.sleep(seconds)
        await context.progress(step + 1, steps, f"step {step + 1} of {steps}")
        await context.checkpoint({"done": step + 1}, events=[("diagnostic.step", {"step": step + 1})])
    return {"steps": steps}


STEPS = JobKind(name="diagnostic.steps", handler=take_steps)
