"""Many who follow jobs live: does everybody get every event in order, how late, and at what cost to everybody else.

    python bench/events.py [--sockets 500] [--streams 500] [--jobs 50] [--rate 1000] [--seconds 30]

One server process (SQLite, in-process cache) whose jobs write `--rate` events a second in all, by the same way as
handlers do. Each listener follows one job, over a WebSocket or Server-Sent Events. The listeners are in two processes
of their own. Lag is from when a handler says something until a listener has it; handlers' words are written together
every 0.2 seconds, so half of that is in it on average. Beside it, a client asks the API for a job all the time.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from statistics import quantiles
from typing import Any

START_SECONDS = 60
BATCH = 50  # connections opened at the same time


def percentile(values: list[float], percent: int) -> float:
    return quantiles(values, n=100)[percent - 1] if len(values) > 1 else (values or [0.0])[0]


# --- The server


async def serve(home: Path, jobs: int, rate: float, seconds: float) -> None:
    import uvicorn

    from scrubjay.api.app import app_around
    from scrubjay.app import open_scrubjay
    from scrubjay.cli.serve import UVICORN
    from scrubjay.model.job import Job, JobState
    from scrubjay.queue.context import JobContext
    from scrubjay.queue.signals import JobSignals
    from scrubjay.settings import Settings
    from scrubjay.storage.jobs import Jobs
    from scrubjay.telemetry import configure_logging

    configure_logging("warning")
    settings = Settings(home=home)
    async with open_scrubjay(settings) as jay:
        who = await jay.access.open_as_admin(home)
        signals = JobSignals(jay.cache)
        contexts = []
        for _ in range(jobs):
            job = Job(tenant_id=who.tenant_id, kind="bench", state=JobState.RUNNING, run=1)
            async with jay.database.writing() as connection:
                await Jobs(connection).add(job)
            contexts.append(JobContext(job, jay.database, signals))
        server = uvicorn.Server(uvicorn.Config(app_around(jay), port=0, lifespan="off", **UVICORN))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        print(json.dumps({"port": port, "jobs": [context.job.id for context in contexts], "rss": rss()}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)  # everybody is connected
        print(json.dumps({"rss": rss()}), flush=True)
        started, cpu, said = time.monotonic(), time.process_time(), 0
        while (now := time.monotonic() - started) < seconds:
            while said < now * rate:
                contexts[said % jobs].note("bench.said", number=said, text="something that a handler has to say")
                said += 1
            await asyncio.sleep(0.01)
        for context in contexts:
            await context.finish(("job.completed", {}, datetime.now().astimezone()), state=JobState.COMPLETED)
            await signals.event(context.job.id)
        counts = {}
        async with jay.database.reading() as connection:
            for context in contexts:
                counts[context.job.id] = (await Jobs(connection).find_by_id(context.job.id)).event_count  # type: ignore[union-attr]
        await asyncio.to_thread(sys.stdin.readline)  # everybody has everything
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"said": said, "cpu": time.process_time() - cpu, "counts": counts, "peak": peak}), flush=True)
        server.should_exit = True
        await serving


def rss() -> float:
    """Of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


# --- The listeners


class Listener:
    def __init__(self) -> None:
        self.lags: list[float] = []
        self.last = 0
        self.gaps = 0

    def hear(self, data: str) -> None:
        event = json.loads(data)
        if event["sequence"] != self.last + 1:
            self.gaps += 1
        self.last = event["sequence"]
        if event["type"] == "bench.said":
            self.lags.append(time.time() - datetime.fromisoformat(event["at"]).timestamp())


async def listen_to_socket(listener: Listener, port: int, key: str, job_id: str, connected: asyncio.Semaphore) -> None:
    from websockets.asyncio.client import connect

    url, headers = f"ws://127.0.0.1:{port}/ws/jobs/{job_id}", {"Authorization": f"Bearer {key}"}
    async with connected:
        socket = await connect(url, additional_headers=headers, proxy=None, compression=None)
    announce()
    async with socket:
        async for message in socket:
            listener.hear(str(message))


async def listen_to_stream(listener: Listener, port: int, key: str, job_id: str, connected: asyncio.Semaphore) -> None:
    async with connected:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET /jobs/{job_id}/events HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\n"
            f"Authorization: Bearer {key}\r\n\r\n".encode()
        )
        while (await reader.readline()).strip():
            continue
    announce()
    while line := await reader.readline():
        if line.startswith(b"data: "):
            listener.hear(line[6:].decode())
        elif line == b"0\r\n":  # the last chunk
            break
    writer.close()


_connected = 0


def announce() -> None:
    global _connected
    _connected += 1


async def listen(kind: str, port: int, key: str, jobs: list[str], count: int) -> None:
    how = listen_to_socket if kind == "sockets" else listen_to_stream
    listeners, room = [Listener() for _ in range(count)], asyncio.Semaphore(BATCH)
    chosen = [jobs[number % len(jobs)] for number in range(count)]
    tasks = [
        asyncio.create_task(how(listener, port, key, job, room))
        for listener, job in zip(listeners, chosen, strict=True)
    ]
    while _connected < count:
        await asyncio.sleep(0.05)
        for task in tasks:
            if task.done():
                task.result()
    print("connected", flush=True)
    await asyncio.gather(*tasks)
    lags = sorted(lag for listener in listeners for lag in listener.lags)
    heard: dict[str, list[int]] = {}
    for listener, job in zip(listeners, chosen, strict=True):
        heard.setdefault(job, []).append(listener.last)
    found = {
        "heard": sum(len(listener.lags) for listener in listeners),
        "gaps": sum(listener.gaps for listener in listeners),
        "last": {job: sorted(set(numbers)) for job, numbers in heard.items()},
        "p50": percentile(lags, 50),
        "p99": percentile(lags, 99),
        "worst": lags[-1] if lags else 0.0,
    }
    print(json.dumps(found), flush=True)


# --- The whole


async def ask_api(port: int, key: str, job_id: str, over: asyncio.Event) -> list[float]:
    import httpx

    took = []
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False) as client:
        while not over.is_set():
            started = time.perf_counter()
            (await client.get(f"http://127.0.0.1:{port}/jobs/{job_id}")).raise_for_status()
            took.append((time.perf_counter() - started) * 1000)
            await asyncio.sleep(0.05)
    return took


async def run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        command = [sys.executable, __file__, "--home", str(home)]
        numbers = ["--jobs", str(options.jobs), "--rate", str(options.rate), "--seconds", str(options.seconds)]
        server = subprocess.Popen(
            [*command, "--role", "server", *numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        children = [server]
        try:
            return await _run(options, server, children, home, command)
        finally:
            for child in children:
                child.kill()
                child.wait()


async def _run(
    options: argparse.Namespace, server: subprocess.Popen[str], children: list[Any], home: Path, command: list[str]
) -> int:
    opened = json.loads(await asyncio.to_thread(server.stdout.readline))  # type: ignore[union-attr]
    port, jobs, key = opened["port"], opened["jobs"], (home / "admin.key").read_text().strip()
    await _latency(port, key, jobs[0], 1.0)  # the first requests pay for what is loaded late
    alone = await _latency(port, key, jobs[0], 3.0)
    listeners = {}
    for kind, count in (("sockets", options.sockets), ("streams", options.streams)):
        told = ["--role", kind, "--count", str(count), "--port", str(port), "--key", key, "--names", ",".join(jobs)]
        child = subprocess.Popen([*command, *told], stdout=subprocess.PIPE, text=True)
        children.append(child)
        listeners[kind] = child
    for child in listeners.values():
        await asyncio.to_thread(child.stdout.readline)  # type: ignore[union-attr]
    server.stdin.write("\n")  # type: ignore[union-attr]
    server.stdin.flush()  # type: ignore[union-attr]
    connected = json.loads(await asyncio.to_thread(server.stdout.readline))  # type: ignore[union-attr]
    over = asyncio.Event()
    asking = asyncio.create_task(ask_api(port, key, jobs[0], over))
    found = {}
    for kind, child in listeners.items():
        found[kind] = json.loads(await asyncio.to_thread(child.stdout.readline))  # type: ignore[union-attr]
    over.set()
    beside = await asking
    server.stdin.write("\n")  # type: ignore[union-attr]
    server.stdin.flush()  # type: ignore[union-attr]
    closing = json.loads(await asyncio.to_thread(server.stdout.readline))  # type: ignore[union-attr]
    return _report(options, opened, connected, closing, found, alone, beside)


async def _latency(port: int, key: str, job_id: str, seconds: float) -> list[float]:
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    return await ask_api(port, key, job_id, over)


def _report(
    options: argparse.Namespace, opened: Any, connected: Any, closing: Any, found: Any, alone: list[float],
    beside: list[float],
) -> int:  # fmt: skip
    clients = options.sockets + options.streams
    print(f"{closing['said']:,} events of {options.jobs} jobs in {options.seconds:g} s, {clients:,} listeners")
    complete = True
    for kind, facts in found.items():
        whole = facts["gaps"] == 0 and all(facts["last"][job] == [closing["counts"][job]] for job in facts["last"])
        complete = complete and whole
        print(
            f"  {kind:<8} {facts['heard']:>9,} deliveries ({facts['heard'] / options.seconds:,.0f}/s), "
            f"{'every event in order' if whole else f'NOT COMPLETE: {facts}'}; lag p50 {facts['p50'] * 1000:.0f} ms, "
            f"p99 {facts['p99'] * 1000:.0f} ms, worst {facts['worst'] * 1000:.0f} ms"
        )
    deliveries = sum(facts["heard"] for facts in found.values())
    print(
        f"  server: {closing['cpu']:.1f} s CPU ({closing['cpu'] / max(1, deliveries) * 1e6:.0f} µs a delivery), "
        f"{(connected['rss'] - opened['rss']) / clients * 1024:.0f} KB a listener, peak {closing['peak']:.0f} MB"
    )
    print(
        f"  API: p50 {percentile(alone, 50):.1f} ms, p99 {percentile(alone, 99):.1f} ms with nobody; "
        f"p50 {percentile(beside, 50):.1f} ms, p99 {percentile(beside, 99):.1f} ms beside them"
    )
    return 0 if complete else 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sockets", type=int, default=500)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--seconds", type=float, default=30)
    for name in ("role", "home", "key", "names"):
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    for name in ("count", "port"):
        parser.add_argument(f"--{name}", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "server":
        from scrubjay.cli.context import run as run_as_commands_do

        run_as_commands_do(lambda: serve(Path(options.home), options.jobs, options.rate, options.seconds))
    elif options.role:
        asyncio.run(listen(options.role, options.port, options.key, options.names.split(","), options.count))
    else:
        sys.exit(asyncio.run(run(options)))


if __name__ == "__main__":
    main()
