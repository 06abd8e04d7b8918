"""JSON endpoints that a deployment uses (embedders, rerankers), asked through the one way out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import stamina

from scrubjay.crawler.fetcher import Fetcher, FetchRequest, FetchResponse
from scrubjay.errors import FetchFailed, Unavailable, UrlBlocked
from scrubjay.telemetry import redact

ATTEMPTS = 4
_WAIT_SECONDS = (0.2, 5.0)
_MAX_ANSWER_BYTES = 128 * 1024 * 1024
_SHOWN_CHARACTERS = 200


class _Busy(Exception):
    """The endpoint may answer if it is asked again."""


@dataclass(frozen=True, slots=True)
class JsonEndpoint:
    """One server's address; `noun` says in errors what it is."""

    fetcher: Fetcher
    url: str
    noun: str
    api_key: str | None = None
    timeout_seconds: float = 60.0

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The parsed answer. What cannot be had after some tries is Unavailable, in words."""
        request = FetchRequest(
            url=f"{self.url.rstrip('/')}{path}",
            method="POST",
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json",
                **({"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}),
            },
            body=json.dumps(body).encode(),
            timeout_seconds=self.timeout_seconds,
            max_bytes=_MAX_ANSWER_BYTES,
            follow_redirects=False,  # a redirect would carry texts and the key elsewhere
        )
        try:
            response = await self._ask(request)
        except (_Busy, FetchFailed, UrlBlocked) as error:
            raise Unavailable(f"The {self.noun} at {self.url} cannot be used: {error}") from error
        try:
            return json.loads(response.body)
        except (ValueError, RecursionError) as error:
            raise Unavailable(f"The {self.noun} at {self.url} did not answer with JSON.") from error

    async def _ask(self, request: FetchRequest) -> FetchResponse:
        first, longest = _WAIT_SECONDS
        async for attempt in stamina.retry_context(
            on=(_Busy, FetchFailed), attempts=ATTEMPTS, wait_initial=first, wait_max=longest, timeout=None
        ):
            with attempt:
                response = await self.fetcher.fetch(request)
                if response.status == 429 or response.status >= 500:
                    raise _Busy(f"it answered with HTTP status {response.status}.")
        if response.status != 200:
            said = redact(response.body[:_SHOWN_CHARACTERS].decode(errors="replace"))
            raise Unavailable(f"The {self.noun} at {self.url} answered with HTTP status {response.status}: {said}")
        return response
