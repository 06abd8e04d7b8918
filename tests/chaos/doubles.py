"""The embedding server and the target site as processes of their own, to be stopped, killed and frozen.

`python -m tests.chaos.doubles models --port 8099`
`python -m tests.chaos.doubles site --port 8100 --pages pages.json --record requests.jsonl`
"""

import argparse
import asyncio
import hashlib
import json
from pathlib import Path

from aiohttp import web
from tests.model_server import ModelServer
from tests.plans import article
from tests.site import Reply, Site, SiteRequest

ANSWER_SECONDS = 0.08


class FileSite:
    """Serves what the file says at the moment of the request: names of pages and their texts."""

    def __init__(self, pages: Path) -> None:
        self._file = pages

    def reply(self, request: SiteRequest) -> Reply | None:
        pages: dict[str, str] = json.loads(self._file.read_text())
        name = request.path.removeprefix("/")
        if not name:
            return Reply(article("home", *(f"/{each}" for each in pages)))
        if name not in pages:
            return None
        etag = hashlib.sha256(pages[name].encode()).hexdigest()[:16]
        return Reply(article(name, "/", text=pages[name]), headers={"ETag": f'"{etag}"'})


async def _serve_site(options: argparse.Namespace) -> None:
    site = Site(FileSite(options.pages).reply)
    site.latency_seconds = ANSWER_SECONDS
    with options.record.open("a", buffering=1) as record:
        await site.start(options.port, record=record)
        await asyncio.Event().wait()


async def _serve_models(options: argparse.Namespace) -> None:
    app = web.Application(client_max_size=64 * 1024**2)
    app.router.add_post("/embed", ModelServer()._tei_embed)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", options.port, reuse_address=True).start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["models", "site"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pages", type=Path)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    asyncio.run(_serve_models(options) if options.what == "models" else _serve_site(options))


if __name__ == "__main__":
    main()
