"""Which addresses belong to a crawl: its extent around the start, and what is included and excluded."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from scrubjay.model.crawl_spec import Extent
from scrubjay.model.patterns import UrlPattern
from scrubjay.model.urls import registrable_domain

# Addresses that end like this are never pages: not worth a request.
_NEVER_PAGES = re.compile(
    r"\.(?:css|js|mjs|map|ico|png|jpe?g|gif|webp|avif|svg|bmp|tiff?|woff2?|ttf|otf|eot|mp[34]|m4[av]|avi|mov|mkv|webm|"
    r"ogg|wav|flac|zip|tar|gz|bz2|xz|7z|rar|exe|dmg|iso|msi|deb|rpm|apk|jar|bin)$",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(r"\.[A-Za-z][A-Za-z0-9]*$")  # `intro.html`, but not `3.12`


class UrlScope:
    """Decides about addresses in the form in which they would be fetched."""

    def __init__(
        self,
        roots: Sequence[str],
        extent: Extent = Extent.HOST,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> None:
        self._extent = extent
        self._include = [UrlPattern(pattern) for pattern in include]
        self._exclude = [UrlPattern(pattern) for pattern in exclude]
        self._hosts: set[str] = set()
        self._domains: set[str] = set()
        self._folders: set[tuple[str, str]] = set()
        self.roots: list[str] = []
        for root in roots:
            self.add_root(root)

    def add_root(self, url: str) -> None:
        """Take an address as a start: of the spec, or where a start redirected to."""
        if url in self.roots:
            return
        self.roots.append(url)
        parts = urlsplit(url)
        host = parts.netloc
        self._hosts.add(host)
        if self._extent is Extent.DOMAIN:
            self._domains.add(registrable_domain(parts.hostname or host))
        self._folders.add((host, _folder(parts.path)))

    def refusal(self, url: str) -> str | None:
        """Why an address does not belong to the crawl, in a word; nothing when it does."""
        # By hand: `urlsplit` would take most of the time that a link costs.
        start = url.index("//") + 2
        slash = url.find("/", start)
        host, path = (url[start:slash], url[slash:].partition("?")[0]) if slash > 0 else (url[start:], "/")
        if not self._within(host, path):
            return "out_of_scope"
        if _NEVER_PAGES.search(path):
            return "not_a_page"
        if any(pattern.search(url) for pattern in self._exclude):
            return "excluded"
        if self._include and not any(pattern.search(url) for pattern in self._include):
            return "not_included"
        return None

    def _within(self, host: str, path: str) -> bool:
        if self._extent is Extent.HOST:
            return host in self._hosts
        if self._extent is Extent.CHILDREN:
            return any(host == own and (path + "/").startswith(folder) for own, folder in self._folders)
        if self._extent is Extent.DOMAIN:
            return host in self._hosts or registrable_domain(_name(host)) in self._domains
        return True


def _folder(path: str) -> str:
    """`/docs/` of `/docs/intro.html` and of `/docs/`; what does not end like a file is taken as a folder itself."""
    last = path.rpartition("/")[2]
    if last and not _FILE_NAME.search(last):
        return path + "/"
    return path[: len(path) - len(last)] or "/"


def _name(host: str) -> str:
    """The host name without its port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
