"""Ctrl-C in commands that watch a job: the first one asks the job to stop, the second one ends the process."""

import asyncio
import signal
import sys

INTERRUPTED = 130  # exit code


class Interrupts:
    """Counts SIGINT and SIGTERM. The work is safe in the database, so the second signal ends the process at once."""

    def __init__(self, farewell: str) -> None:
        self.count = 0
        self._farewell = farewell

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)

    def _interrupt(self) -> None:
        self.count += 1
        if self.count > 1:
            sys.stderr.write(f"\n{self._farewell}\n")
            sys.stderr.flush()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
