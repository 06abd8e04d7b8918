"""Those who use the cluster meanwhile: one adds documents, one searches. Both go on whatever happens."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from tests.chaos.arena import Arena

NOTES = 25
PAUSE_SECONDS = 0.25
TIMEOUT_SECONDS = 30.0


class Traffic:
    """`acknowledged` is what the API promised to have: it must be there at the end, once, as it was said last."""

    def __init__(self, arena: Arena, seed: int) -> None:
        self.acknowledged: dict[str, str] = {}
        self.answers: Counter[str] = Counter()
        self.added_at = 0.0  # of the monotonic clock: when a document was last acknowledged
        self.found_at = 0.0
        self._arena = arena
        self._chance = random.Random(seed)
        self._idle = asyncio.Lock()

    async def add(self) -> None:
        """Add notes and new versions of them; whoever gets no good answer tries again with the same."""
        while True:
            async with self._idle:
                await self._add_one()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _add_one(self) -> None:
        url = f"https://notes.example/{self._chance.randrange(NOTES)}"
        word = f"note{self._chance.randrange(10**9)}"
        text = f"# A note\n\nThis note says {word}, which no other note does, and it says so in a sentence.\n"
        body = {"url": url, "content": text, "content_type": "text/markdown", "title": "A note"}
        while not await self._ask("/api/v1/documents", body, 201):
            await asyncio.sleep(PAUSE_SECONDS)
        self.acknowledged[url] = word
        self.added_at = time.monotonic()

    async def search(self) -> None:
        while True:
            words = list(self.acknowledged.values())
            query = self._chance.choice(words) if words else "note"
            # Not twice the same: a remembered answer would prove little.
            body = {"query": f"{query} {self._chance.randrange(10**6)}"}
            if await self._ask("/api/v1/search", body, 200):
                self.found_at = time.monotonic()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self, path: str, body: object, good: int) -> bool:
        kind = path.rpartition("/")[2]
        try:
            async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False) as client:
                headers = {"Authorization": f"Bearer {self._arena.key}"}
                answer = await client.post(f"{self._arena.address}{path}", json=body, headers=headers)
        except httpx.HTTPError as error:
            self.answers[f"{kind} {type(error).__name__}"] += 1
            return False
        self.answers[f"{kind} {answer.status_code}"] += 1
        if answer.status_code == 500:
            print(f"500 for {path}: {answer.text}")
        return answer.status_code == good

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Nobody adds anything while things are compared."""
        async with self._idle:
            yield


@asynccontextmanager
async def flowing(arena: Arena, seed: int) -> AsyncIterator[Traffic]:
    traffic = Traffic(arena, seed)
    tasks = [asyncio.create_task(traffic.add()), asyncio.create_task(traffic.search())]
    try:
        yield traffic
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
