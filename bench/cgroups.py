"""CPU quotas for the processes of a benchmark, by cgroup v2 or v1, with the CPU time that they used."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


@dataclass(frozen=True)
class QuotaGroup:
    """A group of processes that may use some percent of one core together."""

    folders: Sequence[Path]  # v2: one; v1: of the controllers cpu and cpuacct

    def command(self, arguments: Sequence[str]) -> list[str]:
        """A command line that puts itself into the group, then becomes the given one."""
        enter = "".join(f"echo $$ > {folder}/cgroup.procs && " for folder in self.folders)
        return ["/bin/sh", "-c", f'{enter}exec "$@"', "sh", *arguments]

    @property
    def cpu_seconds(self) -> float:
        for folder in self.folders:
            if (folder / "cpuacct.usage").exists():
                return int((folder / "cpuacct.usage").read_text()) / 1e9
        facts = dict(line.split() for line in (self.folders[0] / "cpu.stat").read_text().splitlines())
        return int(facts["usage_usec"]) / 1e6


def bases() -> list[Path]:
    """The folders in which groups are made; none where cgroups cannot be written."""
    v1 = [ROOT / "cpu", ROOT / "cpuacct"]
    if all((folder / "cgroup.procs").exists() and os.access(folder, os.W_OK) for folder in v1):
        return v1
    if (ROOT / "cgroup.controllers").exists() and os.access(ROOT, os.W_OK):
        return [ROOT] if "cpu" in (ROOT / "cgroup.subtree_control").read_text().split() else []
    return []


@contextmanager
def quota_groups(count: int, percent: int) -> Iterator[list[QuotaGroup]]:
    groups = []
    for number in range(count):
        folders = [base / f"scrubjay-bench-{os.getpid()}-{number}" for base in bases()]
        for folder in folders:
            folder.mkdir()
        groups.append(QuotaGroup(folders))
        quota = PERIOD_US * percent // 100
        if (folders[0] / "cpu.max").exists():
            (folders[0] / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (folders[0] / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folders[0] / "cpu.cfs_quota_us").write_text(str(quota))
    try:
        yield groups
    finally:
        for group in groups:
            for folder in group.folders:
                folder.rmdir()
