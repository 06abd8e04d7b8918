"""A crawl of the whole web on a thousand workers, simulated: politeness, balance, and how long the frontier gets.

    python bench/scale.py [--workers 1000] [--hosts 100000000] [--minutes 60]

Time goes in steps of a second. Every host belongs to one shard by a hash of its name and every shard to one worker, as
in the product. A worker takes the hosts whose turn has come in the order in which it came, as many a second as its CPU
allows. What a page costs is measured by `cost.py`; how many pages hosts have and who links to whom is assumed, see
`World`. Workers die and are replaced; links travel in batches and arrive late.
"""

import argparse
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

TAKEOVER_SECONDS = 30  # from a worker's death until its shard goes on elsewhere
BATCH_SECONDS = 5  # links to other shards are sent this often
IN_FLIGHT = 64  # pages that a worker has under way, and that are asked for again when it dies
LEAST_PAGES, MAX_PAGES = 10, 1_000_000
SEED = 20


@dataclass
class World:
    """Hosts as parallel arrays. Sizes follow a power law, as does who is linked to; both are assumptions."""

    hosts: int
    workers: int
    known: NDArray[np.int32] = field(init=False)  # addresses found
    done: NDArray[np.int32] = field(init=False)
    next_at: NDArray[np.int32] = field(init=False)  # the second from which on it may be asked again

    def __post_init__(self) -> None:
        chance = np.random.default_rng(SEED)
        self.chance = chance
        uniform = chance.random(self.hosts, dtype=np.float32)
        np.maximum(uniform, 1e-7, out=uniform)
        self.pages = np.minimum(LEAST_PAGES * uniform ** (-1 / 1.1), MAX_PAGES).astype(np.int32)
        # A second between two requests, where robots.txt does not ask for more.
        self.delay = np.ones(self.hosts, np.uint8)
        draw = chance.random(self.hosts, dtype=np.float32)
        self.delay[draw < 0.10] = 5
        self.delay[draw < 0.02] = 30
        self.delay[draw < 0.002] = 60
        self.known, self.done, self.next_at = (np.zeros(self.hosts, np.int32) for _ in range(3))

    def shard_of(self, hosts: Ints) -> Ints:
        """A hash of the host, modulo the number of shards (splitmix64)."""
        mixed = hosts.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        return (mixed % np.uint64(self.workers)).astype(np.int64)

    def linked_hosts(self, count: int) -> Ints:
        """Where links to other hosts lead: a few hosts get most of them."""
        return (self.chance.random(count) ** 4 * self.hosts).astype(np.int64)


@dataclass
class Shard:
    """The hosts of one shard whose turn has come, in order."""

    ready: deque[Ints] = field(default_factory=deque)
    waiting: int = 0
    fetched: int = 0
    idle: int = 0  # pages that could have been fetched, had any host been ready
    stopped_until: int = 0

    def add(self, hosts: Ints) -> None:
        self.ready.append(hosts)
        self.waiting += len(hosts)

    def take(self, most: int) -> Iterator[Ints]:
        while most > 0 and self.ready:
            first = self.ready[0]
            if len(first) <= most:
                self.ready.popleft()
            else:
                self.ready[0] = first[most:]
                first = first[:most]
            most -= len(first)
            self.waiting -= len(first)
            yield first


class Simulation:
    def __init__(self, world: World, rate: int, own_links: float, other_links: float, mtbf_hours: float) -> None:
        self.world = world
        self.rate = rate
        self.own_links = own_links
        self.other_links = other_links
        self.death_chance = 1 / (mtbf_hours * 3600)
        self.shards = [Shard() for _ in range(world.workers)]
        self.due: dict[int, list[Ints]] = defaultdict(list)  # by second: hosts that may be asked again then
        self.outgoing: list[Ints] = []
        self.pages = self.repeated = self.deaths = self.too_early = self.links_sent = 0
        self.largest_batch = 0

    def seed(self, count: int) -> None:
        hosts = np.unique(self.world.chance.integers(0, self.world.hosts, count))
        self.world.known[hosts] = 1
        self.due[0].append(hosts)

    def run(self, seconds: int, report_every: int) -> None:
        for now in range(seconds):
            self._let_die(now)
            self._bring_ready(now)
            taken = self._fetch(now)
            if len(taken):
                self._find_links(taken, now)
            if now % BATCH_SECONDS == BATCH_SECONDS - 1:
                self._deliver(now)
            if (now + 1) % report_every == 0:
                self._report(now + 1)

    def _let_die(self, now: int) -> None:
        alive = [shard for shard in self.shards if shard.stopped_until <= now]
        dying = self.world.chance.random(len(alive)) < self.death_chance
        for shard, dies in zip(alive, dying.tolist(), strict=True):
            if dies:
                shard.stopped_until = now + TAKEOVER_SECONDS
                self.deaths += 1
                self.repeated += min(IN_FLIGHT, shard.fetched)

    def _bring_ready(self, now: int) -> None:
        waiting = self.due.pop(now, None)
        if not waiting:
            return
        hosts = np.concatenate(waiting)
        shards = self.world.shard_of(hosts)
        order = np.argsort(shards, kind="stable")
        hosts, shards = hosts[order], shards[order]
        numbers, starts = np.unique(shards, return_index=True)
        for number, part in zip(numbers.tolist(), np.split(hosts, starts[1:]), strict=True):
            self.shards[number].add(part)

    def _fetch(self, now: int) -> Ints:
        taken: list[Ints] = []
        for shard in self.shards:
            if shard.stopped_until > now:
                continue
            got = 0
            for hosts in shard.take(self.rate):
                taken.append(hosts)
                got += len(hosts)
            shard.fetched += got
            shard.idle += self.rate - got
        hosts = np.concatenate(taken) if taken else np.zeros(0, np.int64)
        world = self.world
        self.too_early += int((world.next_at[hosts] > now).sum()) + len(hosts) - len(np.unique(hosts))
        world.done[hosts] += 1
        world.next_at[hosts] = world.delay[hosts].astype(np.int32) + now
        self.pages += len(hosts)
        return hosts

    def _find_links(self, hosts: Ints, now: int) -> None:
        world = self.world
        found = world.chance.poisson(self.own_links, len(hosts))
        world.known[hosts] = np.minimum(world.known[hosts] + found, world.pages[hosts])
        self.outgoing.append(world.linked_hosts(int(world.chance.poisson(self.other_links * len(hosts)))))
        self._wait(hosts[world.known[hosts] > world.done[hosts]], now)

    def _wait(self, hosts: Ints, now: int) -> None:
        """Each until its next turn."""
        if not len(hosts):
            return
        at = np.maximum(self.world.next_at[hosts], now + 1)
        order = np.argsort(at, kind="stable")
        seconds, starts = np.unique(at[order], return_index=True)
        for second, part in zip(seconds.tolist(), np.split(hosts[order], starts[1:]), strict=True):
            self.due[second].append(part)

    def _deliver(self, now: int) -> None:
        """Links to other shards, in batches; a host that had nothing to do gets its turn."""
        if not self.outgoing:
            return
        world = self.world
        links = np.concatenate(self.outgoing)
        self.outgoing = []
        self.links_sent += len(links)
        self.largest_batch = max(self.largest_batch, int(np.bincount(world.shard_of(links)).max()))
        hosts, counts = np.unique(links, return_counts=True)
        had_none = world.known[hosts] <= world.done[hosts]
        room = world.pages[hosts] - world.known[hosts]
        world.known[hosts] += np.minimum(room, counts).astype(np.int32)
        self._wait(hosts[had_none & (room > 0)], now)

    def _report(self, seconds: int) -> None:
        world, shards = self.world, self.shards
        fetched = np.array([shard.fetched for shard in shards])
        pending = int(world.known.sum(dtype=np.int64) - world.done.sum(dtype=np.int64))
        open_hosts = int((world.known > world.done).sum())
        capacity = self.rate * seconds * world.workers
        print(
            f"{seconds // 60:>4} min  {self.pages / 1e6:8.1f} M pages  {self.pages / seconds:8.0f} pages/s "
            f"({self.pages / capacity:.1%} of capacity)  frontier {pending / 1e6:8.1f} M addresses of "
            f"{open_hosts / 1e6:6.2f} M hosts  pages per worker: least {fetched.min() / fetched.mean():.3f}, "
            f"most {fetched.max() / fetched.mean():.3f} of the mean  too early {self.too_early}  deaths {self.deaths}  "
            f"repeated {self.repeated / max(1, self.pages):.2e}",
            flush=True,
        )


def describe_balance(world: World) -> None:
    """How evenly a hash spreads hosts and pages, whoever fetches them."""
    hosts, pages = np.zeros(world.workers, np.int64), np.zeros(world.workers, np.int64)
    for start in range(0, world.hosts, 10_000_000):
        numbers = np.arange(start, min(world.hosts, start + 10_000_000))
        shards = world.shard_of(numbers)
        hosts += np.bincount(shards, minlength=world.workers)
        pages += np.bincount(shards, world.pages[numbers], world.workers).astype(np.int64)
    largest = np.sort(world.pages)[::-1][:1000]
    share = largest.sum() / pages.sum()
    print(
        f"{world.hosts / 1e6:.0f} M hosts with {pages.sum() / 1e9:.2f} G pages on {world.workers} shards: hosts least "
        f"{hosts.min() / hosts.mean():.3f}, most {hosts.max() / hosts.mean():.3f} of the mean; pages least "
        f"{pages.min() / pages.mean():.3f}, most {pages.max() / pages.mean():.3f}; the largest 1,000 hosts have "
        f"{share:.2%} of all pages, and the largest takes {largest[0] / 86400:.1f} days at a page a second"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--hosts", type=int, default=100_000_000)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=int, default=25, help="pages a second that a worker's CPU allows (see cost.py)")
    parser.add_argument("--own-links", type=float, default=3.0, help="new addresses of the same host on a page")
    parser.add_argument("--other-links", type=float, default=0.5, help="addresses of other hosts on a page")
    parser.add_argument("--seeds", type=int, default=1_000_000, help="hosts that are known at the start")
    parser.add_argument("--mtbf-hours", type=float, default=12.0, help="mean time until a worker dies")
    options = parser.parse_args()
    started = time.perf_counter()
    world = World(options.hosts, options.workers)
    describe_balance(world)
    simulation = Simulation(world, options.rate, options.own_links, options.other_links, options.mtbf_hours)
    simulation.seed(options.seeds)
    simulation.run(options.minutes * 60, max(60, options.minutes * 6))
    most = simulation.largest_batch
    print(
        f"links to other hosts: {simulation.links_sent / 1e6:.0f} M, at most {most:,} a shard "
        f"every {BATCH_SECONDS} s; {time.perf_counter() - started:.0f} s of simulating"
    )


if __name__ == "__main__":
    main()
