"""SharePoint's REST protocol: one site, asked as an app, with the patience that SharePoint demands."""

import asyncio
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import stamina

from scrubjay.crawler.fetcher import Fetcher, FetchRequest, FetchResponse
from scrubjay.crawler.polite import retry_after_seconds
from scrubjay.errors import FetchFailed, UrlBlocked, UrlInvalid
from scrubjay.model.urls import parse_url
from scrubjay.queue.context import JobContext
from scrubjay.sources.sharepoint.auth import TokenSource
from scrubjay.sources.sharepoint.items import SiteAddress
from scrubjay.sources.sharepoint.refusals import explain_refusal

PAGE_SIZE = 5000  # SharePoint gives no more at once
ATTEMPTS = 5
MAX_FILE_BYTES = 250 * 1024**3  # SharePoint keeps no larger ones
THROTTLED_SECONDS = 1800.0  # so long one request waits for SharePoint in all
THROTTLED_BY_DEFAULT_SECONDS = 10.0
REQUEST_SECONDS = 120.0
READ_SECONDS = 600.0
_SLOWEST_BYTES_PER_SECOND = 100_000
_SLICE_SECONDS = 0.5
_MAX_ANSWER_BYTES = 256 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_WAIT_SECONDS = (0.2, 10.0)
_PASSING = frozenset({"server_error", "timeout", "connection", "dns", "incomplete"})
_JSON = "application/json;odata=nometadata"

Wait = Callable[[float, str], Awaitable[None]]
"""Waits so many seconds for the reason given. It may raise: a job that is paused or cancelled does not wait on."""


async def wait_quietly(seconds: float, reason: str) -> None:
    await asyncio.sleep(seconds)


def wait_in(context: JobContext) -> Wait:
    """Waits as a job does: it says why, and stops at a checkpoint when somebody asks for it."""

    async def wait(seconds: float, reason: str) -> None:
        await context.log(f"{reason} Going on in {seconds:.0f} seconds.", level="warning")
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await context.checkpoint()
            await asyncio.sleep(min(left, _SLICE_SECONDS))
        await context.checkpoint()

    return wait


class SharePointClient:
    """Requests to one site. While SharePoint throttles one of them, the others wait with it."""

    def __init__(self, fetcher: Fetcher, tokens: TokenSource, site: SiteAddress, wait: Wait = wait_quietly) -> None:
        self.site = site
        self.wait = wait
        self._fetcher = fetcher
        self._tokens = tokens
        self._free_at = 0.0  # by the monotonic clock

    async def get(
        self, path: str, query: Mapping[str, str] | None = None, *, subject: str, patient: bool = True
    ) -> dict[str, Any]:
        """The parsed answer; `path` is what follows `/_api/`, percent-encoded. `subject` says in errors what it is."""
        return await self._get_json(self._address(path, query), subject, patient)

    async def pages(
        self, path: str, query: Mapping[str, str], *, subject: str
    ) -> AsyncIterator[list[Mapping[str, Any]]]:
        """The rows of a collection, page by page. An error ends it; it never ends early without one."""
        address: str | None = self._address(path, {"$top": str(PAGE_SIZE), **query})
        visited: set[str] = set()
        while address is not None:
            if address in visited:
                raise FetchFailed(f"The listing of {subject} leads in a circle.", error_type="not_sharepoint")
            visited.add(address)
            answer = await self._get_json(address, subject, patient=True)
            rows = answer.get("value")
            if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
                raise FetchFailed(f"SharePoint did not list {subject}.", error_type="not_sharepoint")
            yield rows
            following = answer.get("odata.nextLink") or answer.get("@odata.nextLink")
            address = None if following is None else self._follow(str(following), subject)

    async def download(self, path: str, query: Mapping[str, str], target: Path, *, subject: str, size: int = 0) -> int:
        """Write a file to disk, however large it is; there is all of it or nothing. Its size."""
        seconds = REQUEST_SECONDS + size / _SLOWEST_BYTES_PER_SECOND
        request = self._request(self._address(path, query), seconds=seconds, max_bytes=MAX_FILE_BYTES, spool=True)
        answer = await self._ask(replace(request, headers={"Accept": "*/*"}), subject)
        try:
            await asyncio.to_thread(_keep, answer, target)
        except OSError as error:
            reason = error.strerror or str(error)
            raise FetchFailed(f"{subject} cannot be written: {reason}.", error_type="unwritable") from error
        finally:
            if answer.file is not None:
                answer.file.unlink(missing_ok=True)
        return answer.size

    async def read(self, path: str, query: Mapping[str, str], *, subject: str, max_bytes: int) -> FetchResponse:
        """A file's bytes in memory."""
        # Room for what SharePoint says when it refuses, however small files must be.
        room = max(max_bytes, _MAX_ERROR_BYTES)
        request = self._request(self._address(path, query), seconds=READ_SECONDS, max_bytes=room)
        answer = await self._ask(replace(request, headers={"Accept": "*/*"}), subject)
        if answer.size > max_bytes:
            raise FetchFailed(f"{subject} is larger than {max_bytes:,} bytes.", error_type="too_large")
        return answer

    def _address(self, path: str, query: Mapping[str, str] | None = None) -> str:
        encoded = urlencode(query or {}, quote_via=quote, safe="$@,/()")
        return f"{self.site.url}/_api/{path}{'?' if encoded else ''}{encoded}"

    def _follow(self, link: str, subject: str) -> str:
        try:
            url = parse_url(link, f"{self.site.url}/_api/web/")
        except UrlInvalid as error:
            raise FetchFailed(
                f"The listing of {subject} cannot be continued: {error.message}", error_type="not_sharepoint"
            ) from error
        if not url.text.startswith(f"{self.site.origin}/"):
            # The token is for this host; another one gets neither it nor the say about what is listed.
            raise FetchFailed(f"The listing of {subject} goes on at another host.", error_type="not_sharepoint")
        return url.text

    def _request(
        self,
        address: str,
        *,
        seconds: float = REQUEST_SECONDS,
        max_bytes: int = _MAX_ANSWER_BYTES,
        spool: bool = False,
    ) -> FetchRequest:
        return FetchRequest(
            url=address,
            headers={"Accept": _JSON},
            timeout_seconds=seconds,
            max_bytes=max_bytes,
            follow_redirects=False,
            spool=spool,
        )

    async def _get_json(self, address: str, subject: str, patient: bool) -> dict[str, Any]:
        return _parse(await self._ask(self._request(address), subject, patient=patient), subject)

    async def _ask(self, request: FetchRequest, subject: str, *, patient: bool = True) -> FetchResponse:
        first, longest = _WAIT_SECONDS
        attempts = ATTEMPTS if patient else 1
        try:
            async for attempt in stamina.retry_context(
                on=_is_passing, attempts=attempts, wait_initial=first, wait_max=longest, wait_jitter=first, timeout=None
            ):
                with attempt:
                    return await self._ask_until_free(request, subject, patient)
        except (UrlBlocked, UrlInvalid) as error:
            error_type = getattr(error, "error_type", "invalid_url")
            raise FetchFailed(f"{subject} cannot be asked for: {error.message}", error_type=error_type) from error
        raise AssertionError("the last attempt returns or raises")

    async def _ask_until_free(self, request: FetchRequest, subject: str, patient: bool) -> FetchResponse:
        """As long as SharePoint asks for patience, in bounds, it gets it; a token that it does not take is renewed."""
        waited, renewed = 0.0, False
        while True:
            waited += await self._stand_back(waited, subject) if patient else 0.0
            token = await self._tokens.token(self.site.origin)
            answer = await self._send(request, token, subject)
            if answer.status < 300:
                return answer
            _discard(answer)
            if answer.status == 401 and not renewed:
                renewed = True
                self._tokens.forget(self.site.origin, token)
            elif patient and (seconds := _asked_patience(answer)) is not None:
                self._free_at = max(self._free_at, time.monotonic() + seconds)
            else:
                raise explain_refusal(answer, subject)

    async def _stand_back(self, waited: float, subject: str) -> float:
        seconds = self._free_at - time.monotonic()
        if seconds <= 0:
            return 0.0
        if waited + seconds > THROTTLED_SECONDS:
            raise FetchFailed(
                f"{subject} cannot be read: SharePoint throttles this app, for longer than it is waited for.",
                error_type="throttled",
            )
        await self.wait(seconds, "SharePoint throttles this app.")
        return seconds

    async def _send(self, request: FetchRequest, token: str, subject: str) -> FetchResponse:
        try:
            return await self._fetcher.fetch(
                replace(request, headers={**request.headers, "Authorization": f"Bearer {token}"})
            )
        except FetchFailed as error:
            message = f"{subject} cannot be read: {error.message}"
            raise FetchFailed(message, error_type=error.error_type) from error


def _asked_patience(answer: FetchResponse) -> float | None:
    """How long SharePoint wants to be left alone, if that is what it says."""
    if answer.status not in (429, 503):
        return None
    seconds = retry_after_seconds(answer)
    if seconds is None:
        return THROTTLED_BY_DEFAULT_SECONDS if answer.status == 429 else None
    return max(seconds, 0.1)


def _parse(answer: FetchResponse, subject: str) -> dict[str, Any]:
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise FetchFailed(
            f"{subject} cannot be read: what answers there is no SharePoint site.", error_type="not_sharepoint"
        )
    return value


def _keep(answer: FetchResponse, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place and then into it: a process that is killed leaves no half file under the real name.
    partial = target.with_name(f".{os.urandom(8).hex()}.part")
    try:
        if answer.file is None:
            partial.write_bytes(answer.body)
        else:
            shutil.move(answer.file, partial)
            partial.chmod(0o644)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _discard(answer: FetchResponse) -> None:
    if answer.file is not None:
        answer.file.unlink(missing_ok=True)


def _is_passing(error: Exception) -> bool:
    return isinstance(error, FetchFailed) and error.error_type in _PASSING
