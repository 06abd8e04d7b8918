"""What the types of errors mean for people: what happened, and what to do about it."""

from collections.abc import Mapping

ERROR_WORDS: Mapping[str, str] = {
    "archive_bomb": "A file unpacks to far more than it should.",
    "bad_redirect": "The server redirects to something that is no web address.",
    "blocked_address": "The address is in a network that crawls may not reach.",
    "blocked_host": "Somebody blocked the host; see Settings, Hosts.",
    "blocked_page": "The site showed a page for robots instead of its content.",
    "broken_file": "The file is broken and cannot be read.",
    "browser_timeout": "The browser took too long to show the page.",
    "circuit_open": "The host failed too often in a row and is left alone for a while.",
    "connection": "The server could not be reached.",
    "dns": "There is no server of this name.",
    "empty_page": "The page says nothing once menus and footers are taken away.",
    "encrypted": "The file needs a password.",
    "extraction_timeout": "Reading the content took too long.",
    "forbidden": "The server does not let the crawler see it (403).",
    "gone": "The page is gone for good (410).",
    "http_error": "The server answered with an error, such as 404.",
    "incomplete": "The answer broke off in the middle.",
    "ingest": "The document could not be taken in.",
    "invalid_url": "This is no address that can be fetched.",
    "login_wall": "The page asks to sign in; give the crawler credentials.",
    "not_found": "The page is not there (404).",
    "proxy": "The proxy did not let the request through.",
    "redirect_loop": "The server redirects in circles.",
    "robots_unreachable": "robots.txt could not be read, so nothing was asked.",
    "server_error": "The server itself failed (5xx).",
    "soft_404": "The page says that it was not found, though the server does not.",
    "source_unreadable": "The source could not be read.",
    "throttled": "The server asks to come less often (429).",
    "timeout": "The server took too long to answer.",
    "tls": "The server's certificate cannot be trusted.",
    "too_large": "It is larger than the limit.",
    "too_many_redirects": "The server redirects too often.",
    "unauthorized": "The server wants credentials (401).",
    "unsupported_type": "This type of file cannot be read.",
}


def error_words(error_type: str) -> str:
    """A sentence for a type of error; its name where there is none."""
    return ERROR_WORDS.get(error_type, error_type.replace("_", " ").capitalize() + ".")
