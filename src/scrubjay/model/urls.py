"""Web addresses: read once by the WHATWG rules, checked by a second reader, and brought into one normal form."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

import ada_url
import yarl

from scrubjay.errors import UrlInvalid

if TYPE_CHECKING:
    from tldextract import TLDExtract

MAX_URL_LENGTH = 2048
# Query parameters that say where a visitor came from, never what a page shows. A trailing * is a prefix.
TRACKING_PARAMETERS = (
    "utm_*", "mtm_*", "matomo_*", "pk_*", "piwik_*",
    "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "_ga", "_gl", "srsltid",
    "fbclid", "igshid", "igsh", "msclkid", "twclid", "ttclid", "li_fat_id", "epik", "yclid", "ysclid", "_openstat",
    "mc_cid", "mc_eid", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking", "mkt_tok",
    "vero_id", "vero_conv", "oly_anon_id", "oly_enc_id", "wickedid", "rb_clickid", "ml_subscriber",
    "ml_subscriber_hash",
)  # fmt: skip
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Nearly all addresses, once they are in ada's form: a name or an IPv4 address, and nothing to be taken off.
_PLAIN = re.compile(r"(https?)://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::([0-9]+))?/[^#]*+")


def _tracking_pattern(names: Iterable[str]) -> re.Pattern[str]:
    forms = [re.escape(name.removesuffix("*")) + ("[^=]*" if name.endswith("*") else "") for name in names]
    return re.compile(f"(?:{'|'.join(forms)})(?:=|$)", re.IGNORECASE)


_tracking = _tracking_pattern(TRACKING_PARAMETERS)


def register_tracking_parameters(names: Iterable[str]) -> None:
    """Drop these query parameters from normal forms as well as `TRACKING_PARAMETERS`; called once, at start."""
    global _tracking
    _tracking = _tracking_pattern((*TRACKING_PARAMETERS, *names))


@lru_cache(maxsize=2)
def _suffixes(*, private: bool = False) -> "TLDExtract":
    """The list that comes with the package; it is never downloaded. Imported here: with all that it imports it takes 17
    MB, and processes that extract have no use for it."""
    from tldextract import TLDExtract

    return TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=private)


@dataclass(frozen=True, slots=True)
class Url:
    """A web address that can be fetched. `text` has neither credentials nor fragment."""

    text: str
    scheme: str
    host: str  # without brackets
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=8192)  # on its way an address is read at several gates
def parse_url(text: str, base: str | None = None, *, field: str = "url") -> Url:
    """The address, or UrlInvalid. Two parsers must agree on where it leads: what one of them checks and another
    dials would otherwise be two different hosts."""
    if len(text) > MAX_URL_LENGTH:
        raise UrlInvalid(f"The address is longer than {MAX_URL_LENGTH} characters.", field=field)
    try:
        href = ada_url.normalize_url(text) if base is None else ada_url.join_url(base, text)
    except (ValueError, UnicodeEncodeError):
        raise UrlInvalid("This is not a web address.", field=field) from None
    plain = _PLAIN.fullmatch(href)
    return _read_parts(ada_url.URL(href), field) if plain is None else _read_plain(href, plain, field)


def _read_parts(url: ada_url.URL, field: str) -> Url:
    scheme = url.protocol[:-1]
    if scheme not in _DEFAULT_PORTS:
        raise UrlInvalid(f"Only http and https addresses can be fetched, not '{scheme}:'.", field=field)
    host = url.hostname
    if not host:
        raise UrlInvalid("The address has no host.", field=field)
    if not _is_possible(host.removesuffix(".")):
        raise UrlInvalid("The address has no valid host.", field=field)
    if host.endswith("."):  # the same host, but it would slip past what is said about hosts
        url.hostname = host[:-1]
        host = url.hostname
    username, password = unquote(url.username), unquote(url.password)
    if username or password:
        url.username = url.password = ""
    if url.hash:
        url.hash = ""
    port = int(given) if (given := url.port) else _DEFAULT_PORTS[scheme]
    read = Url(url.href.removesuffix("#"), scheme, host.strip("[]"), port, username or None, password or None)
    _require_one_reading(read, field)
    return read


def _read_plain(href: str, plain: re.Match[str], field: str) -> Url:
    """What ada would say of the parts one by one, read off what it made of the whole."""
    scheme, host, given = plain.groups()
    if not _is_possible(host):
        raise UrlInvalid("The address has no valid host.", field=field)
    read = Url(href, scheme, host, int(given) if given else _DEFAULT_PORTS[scheme])
    _require_one_reading(read, field)
    return read


def _is_possible(host: str) -> bool:
    """Whether DNS could know the name; address literals pass as well."""
    return len(host) <= 253 and all(0 < len(label) <= 63 for label in host.split("."))


def _require_one_reading(read: Url, field: str) -> None:
    """aiohttp reads addresses with yarl; it must find the host that was checked."""
    if len(read.text) > MAX_URL_LENGTH:
        raise UrlInvalid(f"The address is longer than {MAX_URL_LENGTH} characters.", field=field)
    try:
        other = yarl.URL(read.text, encoded=True)
        same = (other.scheme, other.raw_host, other.port) == read.origin and other.user is None
    except ValueError:
        same = False
    if not same:
        raise UrlInvalid("The address can be read in more than one way.", field=field)


def normalize_url(text: str, base: str | None = None, *, field: str = "url") -> str:
    """The one form under which an address is known: lower-case host, no default port, no fragment, no
    credentials, sorted query without tracking parameters, no trailing slash except the root's."""
    return normal_form(parse_url(text, base, field=field).text)


def normal_form(href: str) -> str:
    """The normal form of an address that `parse_url` gave."""
    start, question, query = href.partition("?")
    # The root's slash is the third one.
    if start.endswith("/") and start.count("/") > 3:
        start = start.rstrip("/")
        if start.count("/") < 3:
            start += "/"
    if not question or not query:
        return start
    is_tracking = _tracking.match
    if "&" in query:
        query = "&".join(sorted(part for part in query.split("&") if part and not is_tracking(part)))
    elif is_tracking(query):
        return start
    return f"{start}?{query}" if query else start


def canonical_form(href: str, canonical: str | None) -> str:
    """The normal form of the address that a page declares as its canonical one, if that is believable, else of its own.

    A canonical address on another registrable domain, or the home page's on any other page, is more often a mistake
    of the site than the truth.
    """
    own = normal_form(href)
    if not canonical:
        return own
    try:
        target = normal_form(parse_url(canonical).text)
    except UrlInvalid:
        return own
    if not target.partition("//")[2].partition("/")[2]:
        return own
    return target if _is_same_site(host_of(target), host_of(own)) else own


def _is_same_site(host: str, other: str) -> bool:
    """Whether one owner has both hosts; not so for names below a suffix where anyone can have one (`github.io`)."""
    domain = registrable_domain(host)
    return host == other or (domain == registrable_domain(other) and not is_public_suffix(domain))


def host_of(href: str) -> str:
    """The host of an address that `parse_url` gave, without its port."""
    authority = href[href.index("//") + 2 :].partition("/")[0]
    if authority.startswith("["):
        return authority[1 : authority.index("]")]
    return authority.partition(":")[0]


def hash_url(normal: str) -> str:
    return hashlib.sha256(normal.encode()).hexdigest()


@lru_cache(maxsize=4096)
def is_public_suffix(host: str) -> bool:
    """Whether others register names below it (`co.uk`, `github.io`), so that it belongs to nobody."""
    found = _suffixes(private=True)(host)
    return bool(found.suffix) and not found.domain


@lru_cache(maxsize=4096)
def registrable_domain(host: str) -> str:
    """`example.co.uk` of `www.example.co.uk`; an address or a bare name is its own."""
    if ":" in host or "." not in host or host.rpartition(".")[2].isdecimal():
        return host
    return _suffixes()(host).top_domain_under_public_suffix or host
