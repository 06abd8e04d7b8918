"""Every process of a cluster restarts during a crawl: no request fails, no page comes twice, no event is lost."""

import asyncio
import json
import signal
import socket
import subprocess
from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.balancer import Balancer, balancing
from tests.integration.test_cluster import Cluster, assert_polite, cluster_settings, forget_hosts
from tests.many_hosts import ManyHosts, many_hosts
from tests.processes import WorkerProcesses, worker_processes
from tests.workshop import wait_until

from scrubjay.app import open_scrubjay
from scrubjay.model.job import Job, JobRequest, JobState
from scrubjay.storage.home import ADMIN_KEY_FILE

pytestmark = [pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(400)]

STOP_SECONDS = 60


class Client:
    """Somebody who asks all the time, over a new connection each time, and follows the crawl's events."""

    def __init__(self, base: str, key: str, job: Job) -> None:
        self._base = base
        self._headers = {"Authorization": f"Bearer {key}"}
        self._job = job
        self.answers: Counter[str] = Counter()
        self.events: list[int] = []
        self.streams = 0

    async def ask(self) -> None:
        paths = [f"/jobs/{self._job.id}", "/jobs", "/api/v1/health", "/"]
        while True:
            for path in paths:
                try:
                    async with httpx.AsyncClient(base_url=self._base, headers=self._headers, timeout=30) as client:
                        answer = await client.get(path)
                    self.answers[str(answer.status_code)] += 1
                except httpx.HTTPError as error:
                    self.answers[f"{path}: {error!r}"] += 1
                await asyncio.sleep(0.02)

    async def follow(self) -> None:
        """As a browser does: comes back with the number of the last event when a stream ends."""
        address = f"{self._base}/jobs/{self._job.id}/events"
        while True:
            last = {"Last-Event-ID": str(self.events[-1])} if self.events else {}
            headers = {**self._headers, "Accept": "text/event-stream", **last}
            async with (
                httpx.AsyncClient(timeout=60) as client,
                client.stream("GET", address, headers=headers) as stream,
            ):
                assert stream.status_code == 200, await stream.aread()
                self.streams += 1
                async for line in stream.aiter_lines():
                    if line.startswith("id: "):
                        self.events.append(int(line.removeprefix("id: ")))
                    elif line.startswith("data: ") and json.loads(line[6:])["payload"].get("status") == "cancelled":
                        return


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


async def stop(process: subprocess.Popen[bytes], processes: WorkerProcesses) -> None:
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, STOP_SECONDS) == 0, processes.logs()


async def restart_servers(servers: WorkerProcesses, balancer: Balancer) -> None:
    for port, process in zip(balancer.ready, list(servers.alive.values()), strict=True):
        await stop(process, servers)
        servers.start("serve", "--no-work", "--port", str(port))

        async def both_ready() -> bool:
            return all(balancer.ready.values())

        await wait_until(both_ready, "both servers are ready", seconds=150)


async def restart_workers(cluster: Cluster, site: ManyHosts) -> None:
    for process in list(cluster.processes.alive.values()):
        await stop(process, cluster.processes)
        await cluster.workers(1)
        await cluster.fetched(site, len(site.visits) + 20)


async def test_restarting_every_process_fails_no_request_and_repeats_no_page(
    home: Path, postgres_url: str, redis_url: str, tmp_path: Path
) -> None:
    settings = cluster_settings(home, postgres_url, forget_hosts(redis_url)).model_copy(
        update={"api_drain_seconds": 0.5}
    )
    ports = free_ports(2)
    async with open_scrubjay(settings, working=False) as jay, many_hosts(16, 2000, answer_seconds=0.02) as site:
        who = await jay.access.open_as_admin(home)
        with (
            worker_processes(settings, tmp_path) as workers,
            worker_processes(settings, tmp_path, "server") as servers,
        ):
            cluster = Cluster(jay, who, workers)
            for port in ports:
                servers.start("serve", "--no-work", "--port", str(port))
            await cluster.workers(2)
            async with balancing(ports) as balancer:

                async def both_ready() -> bool:
                    return all(balancer.ready.values())

                await wait_until(both_ready, "both servers are ready", seconds=150)
                job = await cluster.start(site, delay_ms=250)  # as good as endless
                key = (home / ADMIN_KEY_FILE).read_text().strip()
                client_ = Client(f"http://127.0.0.1:{balancer.port}", key, job)
                asking, following = asyncio.create_task(client_.ask()), asyncio.create_task(client_.follow())
                await cluster.fetched(site, 60)
                await restart_servers(servers, balancer)
                await restart_workers(cluster, site)
                assert (await cluster.look(job)).state is JobState.RUNNING, "it was over before all had restarted"
                await jay.jobs.make_request(who, job.id, JobRequest.CANCEL)
                job = await cluster.finish(job, JobState.CANCELLED)
                await asyncio.wait_for(following, 60)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
        assert set(client_.answers) == {"200"}
        assert client_.answers["200"] > 50
        assert client_.streams > 1
        assert client_.events == list(range(1, job.event_count + 1))
        assert set(site.counts.values()) == {1}
        assert job.progress["pages"] == len(site.visits)
        assert_polite(site)
