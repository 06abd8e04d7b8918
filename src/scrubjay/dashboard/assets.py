"""What pages load: our stylesheet and script, and what `make install` fetched from npm packages."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from scrubjay.errors import NotFound

FOLDER = Path(__file__).parent / "static"
PREFIX = "/ui/static"
FOREVER = "public, max-age=31536000, immutable"  # an address with a version never means anything else
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
NEEDED = ("htmx.min.js", "sse.min.js")

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Asset:
    data: bytes
    media_type: str
    version: str


@cache
def assets(folder: Path = FOLDER) -> Mapping[str, Asset]:
    """Everything that is there, by name: a handful of small files, kept in memory."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.suffix in MEDIA_TYPES):
        data = path.read_bytes()
        found[path.name] = Asset(data, MEDIA_TYPES[path.suffix], hashlib.sha256(data).hexdigest()[:12])
    return found


def asset_url(name: str) -> str | None:
    """Where a page finds an asset, or nothing where it was not fetched."""
    asset = assets().get(name)
    return None if asset is None else f"{PREFIX}/{name}?v={asset.version}"


def is_live() -> bool:
    """Whether pages can update themselves."""
    return all(name in assets() for name in NEEDED)


@router.get("/static/{asset}")
async def show_asset(request: Request, asset: str) -> Response:
    """A stylesheet or script of the dashboard."""
    known = assets().get(asset)
    if known is None:
        raise NotFound("There is nothing at this address.")
    headers = {"Cache-Control": FOREVER if request.query_params.get("v") == known.version else "no-cache"}
    return Response(known.data, media_type=known.media_type, headers=headers)
