"""What the OpenAI door adds to the first byte of an answer that it passes on, and whether it holds words back.

    python bench/openai_proxy.py [--requests 400] [--word-ms 5]

A server that speaks OpenAI's protocol, `scrubjay serve` in front of it, and a client: three processes. Requests go
directly and through the door in turns, over connections that are kept.
"""

import argparse
import asyncio
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from scrubjay.storage.home import ADMIN_KEY_FILE

ROOT = Path(__file__).parent.parent
BODY = {"model": "m", "messages": [{"role": "user", "content": "What does it remember?"}], "stream": True}


def run_upstream(pipe: Connection, word_seconds: float) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.openai_server import KEY, running_openai_server

    async def main() -> None:
        async with running_openai_server() as server:
            server.word_seconds = word_seconds
            pipe.send((server.url, KEY))
            await asyncio.Event().wait()

    asyncio.run(main())


async def ask(client: httpx.AsyncClient, url: str, key: str) -> tuple[float, float, int]:
    """Milliseconds to the first byte and to the last, and in how many pieces the answer came."""
    started, first, pieces = time.perf_counter(), 0.0, 0
    headers = {"Authorization": f"Bearer {key}"}
    async with client.stream("POST", f"{url}/chat/completions", json=BODY, headers=headers) as answer:
        answer.raise_for_status()
        async for _ in answer.aiter_raw():
            first = first or time.perf_counter() - started
            pieces += 1
    return first * 1000, (time.perf_counter() - started) * 1000, pieces


async def measure(direct: tuple[str, str], through: tuple[str, str], requests: int) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        for place in (direct, through) * 20:
            await ask(client, *place)
        seen: dict[str, list[tuple[float, float, int]]] = {"direct": [], "door": []}
        for _ in range(requests):
            seen["direct"].append(await ask(client, *direct))
            seen["door"].append(await ask(client, *through))
    for name, times in seen.items():
        firsts = sorted(each[0] for each in times)
        late = firsts[int(len(firsts) * 0.95)]
        pieces = statistics.median(each[2] for each in times)
        print(
            f"{name:>7}: first byte {statistics.median(firsts):.2f} ms median, {late:.2f} ms p95; "
            f"whole answer {statistics.median(each[1] for each in times):.2f} ms in {pieces:.0f} pieces"
        )
    added = [door[0] - own[0] for own, door in zip(seen["direct"], seen["door"], strict=True)]
    print(f"  added: {statistics.median(added):.2f} ms median, {sorted(added)[int(len(added) * 0.95)]:.2f} ms p95")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--word-ms", type=float, default=5.0)
    options = parser.parse_args()
    ours, its = multiprocessing.Pipe()
    upstream = multiprocessing.get_context("spawn").Process(
        target=run_upstream, args=(its, options.word_ms / 1000), daemon=True
    )
    upstream.start()
    url, key = ours.recv()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        settings = {
            "SCRUBJAY_OPENAI_API_KEY": key,
            "SCRUBJAY_OPENAI_BASE_URL": f"{url}/v1",
            "SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
            "SCRUBJAY_LOG_LEVEL": "warning",
        }
        command = [sys.executable, "-m", "scrubjay.cli", "--home", str(home), "serve", "--port", "0", "--no-work"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | settings) as server:
            try:
                assert server.stdout is not None
                address = re.search(r"serving on (http://\S+)", server.stdout.readline())
                assert address is not None
                admin = (home / ADMIN_KEY_FILE).read_text().strip()
                asyncio.run(measure((f"{url}/v1", key), (f"{address[1]}/openai/v1", admin), options.requests))
            finally:
                server.terminate()
    upstream.terminate()


if __name__ == "__main__":
    main()
