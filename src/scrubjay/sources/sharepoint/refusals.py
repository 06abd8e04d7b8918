"""Why Microsoft or SharePoint said no, in words that tell what to do."""

import json
import re
from collections.abc import Mapping
from typing import Any

from scrubjay.crawler.fetcher import FetchResponse
from scrubjay.errors import FetchFailed
from scrubjay.telemetry import redact

THRESHOLD = "SPQueryThrottledException"
_SHOWN_CHARACTERS = 300
_CODE = re.compile(r"AADSTS\d+")
_TOKEN_REFUSALS = {
    "AADSTS700016": "There is no app with the id {client} in the tenant {tenant}.",
    "AADSTS700027": "The app's certificate is not registered with the app {client}, or it has expired there.",
    "AADSTS7000215": "The app's secret is not valid.",
    "AADSTS7000222": "The app's secret has expired; make a new one for the app {client}.",
    "AADSTS7000112": "The app {client} is disabled in the tenant {tenant}.",
    "AADSTS65001": "The app {client} has no consent (any more); an administrator of the tenant must grant it.",
    "AADSTS500011": "The site's host is no SharePoint of the tenant {tenant}.",
    "AADSTS90002": "There is no tenant {tenant}.",
    "AADSTS53003": "Rules of the tenant {tenant} for conditional access keep the app {client} out.",
}
_ERROR_TYPES = {
    401: "unauthorized", 403: "forbidden", 404: "not_found", 410: "not_found", 423: "locked", 429: "throttled",
}  # fmt: skip


def explain_token_refusal(answer: Mapping[str, Any], client_id: str, tenant_id: str) -> FetchFailed:
    said = " ".join(str(answer.get("error_description") or answer.get("error") or "").split())
    found = _CODE.search(said)
    code = found[0] if found else str(answer.get("error") or "unknown")
    words = _TOKEN_REFUSALS.get(code, "Microsoft gives the app {client} no token for SharePoint.")
    told = str(redact(said))[:_SHOWN_CHARACTERS]
    message = f"{words.format(client=client_id, tenant=tenant_id)} Microsoft said: {told or code}"
    return FetchFailed(message, error_type="unauthorized", code=code)


def explain_refusal(answer: FetchResponse, subject: str) -> FetchFailed:
    """An answer of SharePoint that is no success. `subject` says what was asked for."""
    code, said = read_error(answer.body)
    status = answer.status
    error_type = _ERROR_TYPES.get(status, "server_error" if status >= 500 else "http_error")
    if THRESHOLD in code:
        error_type = "threshold"
    told = f": {said}" if said else "."
    advice = _advice(status, error_type, said)
    message = f"{subject} cannot be read. {advice}SharePoint answered with HTTP status {status}{told}"
    return FetchFailed(message, error_type=error_type, status=status, code=code)


def _advice(status: int, error_type: str, said: str) -> str:
    if status == 401 and "app only" in said.lower():
        return "SharePoint takes apps with a certificate only, not with a secret. "
    if status in (401, 403):
        return "The app may not read this; it needs the permission Sites.Read.All, or Sites.Selected with this site. "
    if error_type == "threshold":
        return "The library is too large for this filter; filter by a column that has an index. "
    return ""


def read_error(body: bytes) -> tuple[str, str]:
    """The code and the words of an error, in any of the shapes that SharePoint knows."""
    try:
        value = json.loads(body[:65_536] or b"null")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, Mapping):
        return "", ""
    error = value.get("odata.error") or value.get("error") or value
    if not isinstance(error, Mapping):
        return "", _shown(value.get("error_description") or error)
    message = error.get("message") or error.get("error_description") or ""
    return str(error.get("code") or ""), _shown(message.get("value") if isinstance(message, Mapping) else message)


def _shown(said: object) -> str:
    return " ".join(str(redact(str(said or ""))).split())[:_SHOWN_CHARACTERS]
