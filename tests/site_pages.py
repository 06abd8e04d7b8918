"""The pages of a generated site: home → sections → pages, cross links, redirects, 404s, duplicates, validators.

Everything follows from the seed and the number of a page, so any page can be made at any time and none is kept.
"""

import hashlib
import random
from functools import cached_property

from tests.site import HTML, Reply, SiteRequest, redirect

PAGES_PER_SECTION = 50
LINKS_PER_PAGE = 6
LAST_MODIFIED = "Wed, 01 Oct 2025 08:00:00 GMT"
VOCABULARY = (
    "acorn branch cache dawn east feather garden harvest inland juniper keeper larder memory nest oak path quill "
    "ridge season timber upland valley winter yard zenith scrub jay spoils returns hides finds counts ripe"
)
WORDS = VOCABULARY.split()


class GeneratedPages:
    """`/` links sections `/section/S`, which link pages `/page/N`; each page links others. Besides them, some pages
    have a redirect `/old/N`, a copy with a canonical tag `/copy/N`, a copy without one `/mirror/N`, and dead links
    `/gone/N`."""

    def __init__(self, pages: int, seed: int = 0, page_bytes: int = 2000) -> None:
        self.pages = pages
        self.seed = seed
        self.page_bytes = page_bytes
        self.sections = max(1, -(-pages // PAGES_PER_SECTION))
        self.changed: set[str] = set()  # paths whose text and validators differ from the first time

    @cached_property
    def paths(self) -> list[str]:
        """Every path that answers with content of its own and can be reached from the home page."""
        sections = [f"/section/{number}" for number in range(self.sections)]
        return ["/", *sections, *(f"/page/{number}" for number in range(self.pages))]

    @property
    def mirrors(self) -> list[str]:
        return [f"/mirror/{number}" for number in range(0, self.pages, 25)]

    @property
    def dead(self) -> list[str]:
        return [f"/gone/{number}" for number in range(0, self.pages, 20)]

    def sitemap(self, base: str) -> str:
        entries = "".join(f"<url><loc>{base}{path}</loc><lastmod>2025-10-01</lastmod></url>" for path in self.paths)
        return (
            '<?xml version="1.0" encoding="UTF-8"?>'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
        )

    def reply(self, request: SiteRequest) -> Reply | None:
        path = request.path
        if path == "/":
            links = [(f"/section/{number}", f"Section {number}") for number in range(self.sections)]
            return self._page(path, "Home", links)
        kind, _, number = path.strip("/").partition("/")
        if not number.isdecimal():
            return None
        return self._numbered(path, kind, int(number))

    def _numbered(self, path: str, kind: str, number: int) -> Reply | None:
        if kind == "section" and number < self.sections:
            first = number * PAGES_PER_SECTION
            numbers = range(first, min(first + PAGES_PER_SECTION, self.pages))
            return self._page(path, f"Section {number}", [(f"/page/{each}", f"Page {each}") for each in numbers])
        if number >= self.pages:
            return None
        if kind == "old":
            return redirect(f"/page/{number}", 301)
        if kind in ("page", "copy", "mirror"):
            # A copy is the same to the byte, so that it can be told by its hash.
            return self._page(f"/page/{number}", f"Page {number}", self._links(number), canonical=kind != "mirror")
        return None

    def _links(self, number: int) -> list[tuple[str, str]]:
        chance = random.Random(f"{self.seed}:links:{number}")
        others = [chance.randrange(self.pages) for _ in range(LINKS_PER_PAGE)]
        links = [("/", "Home"), (f"/section/{number // PAGES_PER_SECTION}", "Up")]
        links += [(f"/page/{other}", f"About page {other}") for other in others]
        links.append((f"/page/{(number + 1) % self.pages}", "Next"))
        for kind, every in (("old", 10), ("gone", 20), ("copy", 25), ("mirror", 25)):
            if number % every == 0:
                links.append((f"/{kind}/{number}", f"{kind} {number}"))
        return links

    def _page(self, path: str, title: str, links: list[tuple[str, str]], *, canonical: bool = True) -> Reply:
        chance = random.Random(f"{self.seed}:text:{path}:{path in self.changed}")
        paragraphs = []
        size = 0
        while size < self.page_bytes:
            paragraph = " ".join(chance.choices(WORDS, k=60))
            paragraphs.append(f"<p>{paragraph.capitalize()}.</p>")
            size += len(paragraph)
        anchors = "".join(f'<li><a href="{link}">{text}</a></li>' for link, text in links)
        tag = f'<link rel="canonical" href="{path}">' if canonical else ""
        body = (
            f"<!doctype html><html lang=en><head><title>{title}</title>{tag}</head>"
            f"<body><nav><ul>{anchors}</ul></nav><main><h1>{title}</h1>{''.join(paragraphs)}</main></body></html>"
        ).encode()
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        modified = LAST_MODIFIED.replace("01 Oct", "02 Oct").replace("Wed", "Thu") if path in self.changed else None
        return Reply(body, content_type=HTML, headers={"ETag": etag, "Last-Modified": modified or LAST_MODIFIED})
