"""A small server that speaks the part of SharePoint's and Entra's protocols that we use, and can misbehave.

Tokens by secret or certificate, libraries, lists and pages under `/sites/…/_api/`, paging, changes, throttling.
"""

import asyncio
import hashlib
import json
import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import jwt
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from tests.sharepoint_content import StoredItem, StoredLibrary, StoredList
from tests.sharepoint_odata import BadQueryError, parse_filter, project

TENANT, CLIENT_ID, CLIENT_SECRET = "3f1c2b4a-tenant", "11111111-2222-3333-4444-555555555555", "open sesame"
_LIST = re.compile(r"web/lists\(guid'([^']+)'\)/(\w+)")
_TITLE = re.compile(r"web/lists/GetByTitle\('((?:[^']|'')*)'\)")
_FILE = re.compile(r"web/GetFileByServerRelativePath\(DecodedUrl=@a1\)/(\$value|ListItemAllFields)")
_FOLDER = "web/GetFolderByServerRelativePath(DecodedUrl=@a1)"
_CHUNK = bytes(64 * 1024)
_MOST_LOOKUPS = 12


@dataclass(frozen=True)
class Asked:
    method: str
    target: str  # decoded
    authorized: bool
    at: float


@dataclass
class Fault:
    """Answers requests whose target has `part` in it so many times in its own way."""

    part: str
    times: int
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    skip: int = 0  # so many pass first


class Refusal(Exception):
    def __init__(self, status: int, code: str, words: str) -> None:
        super().__init__(words)
        self.status, self.code, self.words = status, code, words


class StoredSite:
    """One site: `libraries` and `lists` by title."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.documents = StoredLibrary("Documents", f"{path}/Shared Documents")
        self.pages = StoredLibrary("Site Pages", f"{path}/SitePages")
        self.lists: list[StoredList] = [self.documents, self.pages]


class SharePointServer:
    def __init__(self) -> None:
        self.url = ""
        self.sites: dict[str, StoredSite] = {}
        self.requests: list[Asked] = []
        self.faults: list[Fault] = []
        self.latency_seconds = 0.0
        self.token_seconds = 3600.0
        self.token_refusal: tuple[str, str] | None = None  # an AADSTS code and words
        self.certificates: dict[str, x509.Certificate] = {}
        self.unreadable: set[str] = set()
        self.cut_off: set[str] = set()  # downloads that end in the middle
        self.page_size = 5000
        self.threshold: int | None = None  # items above which a filter without an index is refused
        self._tokens: dict[str, float] = {}
        self._runner: web.AppRunner | None = None

    def add_site(self, path: str = "/sites/demo") -> StoredSite:
        return self.sites.setdefault(path, StoredSite(path))

    def trust(self, certificate: x509.Certificate) -> None:
        self.certificates[_thumbprint(certificate)] = certificate

    def fault(self, part: str, status: int, *, times: int = 1, skip: int = 0, body: str = "", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.append(Fault(part, times, status, named, body, skip))

    def revoke_tokens(self) -> None:
        self._tokens.clear()

    def asked(self, part: str) -> list[Asked]:
        return [request for request in self.requests if part in request.target]

    async def start(self) -> None:
        app = web.Application(client_max_size=16 * 1024**2)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        target = unquote(request.raw_path)
        authorized = self._is_authorized(request)
        self.requests.append(Asked(request.method, target, authorized, time.monotonic()))
        if self.latency_seconds:
            await asyncio.sleep(self.latency_seconds)
        fault = self._fault_of(target)
        if fault is not None:
            return web.Response(status=fault.status, text=fault.body, headers=fault.headers)
        path = unquote(urlsplit(request.raw_path).path)
        if path.endswith(("/oauth2/v2.0/token", "/openid-configuration")):
            return await self._give_token(request, path)
        if not authorized:
            return _refuse(401, "-2147024891", "Invalid JWT token. The token is expired.")
        try:
            return await self._serve(request, path)
        except Refusal as refusal:
            return _refuse(refusal.status, refusal.code, refusal.words)
        except BadQueryError as error:
            return _refuse(400, "-1, Microsoft.SharePoint.Client.InvalidClientQueryException", str(error))

    def _fault_of(self, target: str) -> Fault | None:
        for fault in self.faults:
            if fault.part in target and fault.times > 0:
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                return fault
        return None

    def _is_authorized(self, request: web.Request) -> bool:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return self._tokens.get(token, 0.0) > time.monotonic()

    async def _give_token(self, request: web.Request, path: str) -> web.Response:
        tenant = path.split("/")[1]
        secure = self.url.replace("http://", "https://")
        if tenant != TENANT:
            return web.json_response({"error": "invalid_tenant", "error_description": "AADSTS90002: No."}, status=400)
        if path.endswith("/openid-configuration"):
            base = f"{secure}/{tenant}"
            return web.json_response(
                {
                    "issuer": f"{base}/v2.0",
                    "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                    "token_endpoint": f"{base}/oauth2/v2.0/token",
                }
            )
        form = await request.post()
        refusal = self.token_refusal or self._check_client(dict(form), f"{secure}/{tenant}/oauth2/v2.0/token")
        if refusal is not None:
            said = {"error": "invalid_client", "error_description": f"{refusal[0]}: {refusal[1]} Trace ID: 1"}
            return web.json_response(said, status=401)
        token = secrets.token_urlsafe(32)
        self._tokens[token] = time.monotonic() + self.token_seconds
        return web.json_response({"token_type": "Bearer", "expires_in": int(self.token_seconds), "access_token": token})

    def _check_client(self, form: Mapping[str, Any], audience: str) -> tuple[str, str] | None:
        if form.get("client_id") != CLIENT_ID:
            return "AADSTS700016", "Application was not found in the directory."
        if form.get("scope", "").split()[0] != f"{self.url}/.default":
            return "AADSTS500011", "The resource principal was not found in the tenant."
        if "client_assertion" not in form:
            right = form.get("client_secret") == CLIENT_SECRET
            return None if right else ("AADSTS7000215", "Invalid client secret provided.")
        assertion = str(form["client_assertion"])
        certificate = self.certificates.get(str(jwt.get_unverified_header(assertion).get("x5t#S256")).rstrip("="))
        if certificate is None:
            return (
                "AADSTS700027",
                "The certificate with identifier used to sign the client assertion is not registered.",
            )
        try:
            claims = jwt.decode(
                assertion, certificate.public_key(), algorithms=["PS256", "RS256"], audience=audience, issuer=CLIENT_ID
            )
        except jwt.PyJWTError as error:
            return "AADSTS700027", f"Client assertion failed signature validation: {error}"
        return None if claims["sub"] == CLIENT_ID else ("AADSTS700021", "Client assertion subject does not match.")

    async def _serve(self, request: web.Request, path: str) -> web.StreamResponse:
        place, found, resource = path.partition("/_api/")
        site = self.sites.get(place)
        if site is None or not found:
            raise Refusal(404, "-1, System.IO.FileNotFoundException", "404 FILE NOT FOUND")
        query = dict(request.query)
        if resource == "web/lists":
            return self._page(request, (each.row for each in site.lists), query, ("RootFolder",))
        if titled := _TITLE.fullmatch(resource):
            title = titled[1].replace("''", "'")
            return _answer_json(project(_list_titled(site, title).row, query["$select"], query.get("$expand")))
        if listed := _LIST.fullmatch(resource):
            return await self._serve_list(request, _list_with(site, listed[1]), listed[2], query)
        if resource == _FOLDER:
            return _answer_json({"Exists": _has_folder(site, _alias(query))})
        if filed := _FILE.fullmatch(resource):
            return await self._serve_file(request, site, _alias(query), filed[1], query)
        raise Refusal(404, "-1, Microsoft.SharePoint.Client.ResourceNotFoundException", f"Cannot find {resource}.")

    async def _serve_list(
        self, request: web.Request, stored: StoredList, what: str, query: Mapping[str, str]
    ) -> web.StreamResponse:
        if what == "fields":
            return self._page(request, iter(stored.fields), query, ())
        if what != "items":
            raise Refusal(404, "-1, Microsoft.SharePoint.Client.ResourceNotFoundException", f"Cannot find {what}.")
        expanded = [name for name in query.get("$expand", "").split(",") if name in stored.deferred]
        if len(set(expanded) - {"File", "AttachmentFiles"}) > _MOST_LOOKUPS:
            raise _throttled("The query cannot be completed because of the number of lookup columns it contains.")
        asks_unindexed = "FileRef" in query.get("$filter", "") or "FSObjType" in query.get("$filter", "")
        if self.threshold is not None and len(stored.items) > self.threshold and asks_unindexed:
            raise _throttled("The attempted operation is prohibited because it exceeds the list view threshold.")
        return self._page(request, stored.rows(), query, stored.deferred)

    def _page(
        self, request: web.Request, rows: Any, query: Mapping[str, str], deferred: tuple[str, ...]
    ) -> web.Response:
        """One page, and the link to the next. `$skip` is ignored, as SharePoint does."""
        top = min(int(query.get("$top", "100")), self.page_size)
        after = int(query.get("$skiptoken", "Paged=TRUE&p_ID=0").rpartition("=")[2])
        wanted = parse_filter(query["$filter"]) if query.get("$filter") else None
        found: list[dict[str, Any]] = []
        answer: dict[str, Any] = {"value": found}
        last = after
        for position, row in enumerate(rows, 1):
            number = row["Id"] if isinstance(row.get("Id"), int) else position
            if number <= after or (wanted is not None and not wanted(row)):
                continue
            if len(found) == top:
                link = {**query, "$skiptoken": f"Paged=TRUE&p_ID={last}"}
                answer["odata.nextLink"] = f"{self.url}{request.rel_url.raw_path}?{urlencode(link)}"
                break
            found.append(project(row, query.get("$select"), query.get("$expand"), deferred))
            last = number
        return _answer_json(answer)

    async def _serve_file(
        self, request: web.Request, site: StoredSite, path: str, what: str, query: Mapping[str, str]
    ) -> web.StreamResponse:
        item = _file_at(site, path)
        if path in self.unreadable:
            raise Refusal(403, "-2147024891, System.UnauthorizedAccessException", "Access denied.")
        if what == "ListItemAllFields":
            return _answer_json(project(item.row, query.get("$select"), query.get("$expand"), ("File",)))
        if isinstance(item.content, bytes) and path not in self.cut_off:
            return web.Response(body=item.content, content_type="application/octet-stream")
        response = web.StreamResponse(headers={"Content-Length": str(max(item.size, 1))})
        await response.prepare(request)
        left = item.size // 2 if path in self.cut_off else item.size
        while left > 0:
            await response.write(_CHUNK[:left])
            left -= len(_CHUNK)
        if path in self.cut_off and request.transport is not None:
            request.transport.abort()
        return response


def _thumbprint(certificate: x509.Certificate) -> str:
    digest = hashlib.sha256(certificate.public_bytes(Encoding.DER)).digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")


def _throttled(words: str) -> Refusal:
    return Refusal(500, "-2147024860, Microsoft.SharePoint.SPQueryThrottledException", words)


def _answer_json(value: Any) -> web.Response:
    return web.Response(text=json.dumps(value), content_type="application/json")


def _refuse(status: int, code: str, words: str) -> web.Response:
    return web.json_response(
        {"odata.error": {"code": code, "message": {"lang": "en-US", "value": words}}}, status=status
    )


def _alias(query: Mapping[str, str]) -> str:
    return query["@a1"][1:-1].replace("''", "'")


def _list_titled(site: StoredSite, title: str) -> StoredList:
    for stored in site.lists:
        if stored.title.lower() == title.lower():
            return stored
    raise Refusal(404, "-1, System.ArgumentException", f"List '{title}' does not exist at site.")


def _list_with(site: StoredSite, list_id: str) -> StoredList:
    for stored in site.lists:
        if stored.id == list_id:
            return stored
    raise Refusal(404, "-2130575322, Microsoft.SharePoint.SPException", "List does not exist.")


def _has_folder(site: StoredSite, path: str) -> bool:
    roots = {stored.root.lower() for stored in site.lists}
    folders = {item.path.lower() for stored in site.lists for item in stored.items.values() if item.is_folder}
    return path.lower() in roots | folders


def _file_at(site: StoredSite, path: str) -> StoredItem:
    for stored in site.lists:
        for item in stored.items.values():
            if item.path.lower() == path.lower() and not item.is_folder:
                return item
    raise Refusal(404, "-2130575338, Microsoft.SharePoint.SPException", f"The file {path} does not exist.")


@asynccontextmanager
async def running_sharepoint() -> AsyncIterator[SharePointServer]:
    server = SharePointServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
