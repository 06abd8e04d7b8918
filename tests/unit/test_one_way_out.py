"""DESIGN §4.1: nothing but the fetcher, the browser's proxy and the servers' own clients opens a connection."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import scrubjay

SOURCE = Path(scrubjay.__file__).parent
# Whatever could reach the network: clients, raw sockets, and calls that make the event loop dial.
CLIENTS = frozenset(
    {
        "aiohttp", "httpx", "requests", "urllib3", "urllib.request", "http.client", "ftplib", "smtplib", "telnetlib",
        "socket", "ssl", "asyncio.streams", "websockets", "websocket", "pycurl", "httplib2", "niquests", "grpc",
        "paramiko", "redis", "playwright", "openai", "msal", "crawl4ai", "xmlrpc", "socketserver", "http.server",
        "imaplib", "poplib", "nntplib", "qdrant_client", "selenium", "trafilatura.downloads", "feedparser",
        "httpx2",
    }
)  # fmt: skip
DIALLING = frozenset(
    {
        "open_connection", "create_connection", "sock_connect", "open_unix_connection", "create_datagram_endpoint",
        "create_unix_connection", "getaddrinfo", "gethostbyname", "urlopen", "fetch_url", "fetch_response",
    }
)  # fmt: skip
# Who may, and why. Everything here is read by people in a review: keep it short.
ALLOWED = {
    "openai/remote.py": "the openai SDK, on a client whose only transport is the next one",
    "openai/sdk_transport.py": "that transport: it hands every request to the relay",
    "crawler/fetcher.py": "the one way out",
    "crawler/addresses.py": "resolves names for the guard",
    "crawler/relay.py": "passes requests on, over the fetcher's own connections and guard",
    "crawler/browser_proxy.py": "the browser's way out, through the guard",
    "crawler/browser.py": "drives a local Chromium whose only way out is that proxy",
    "extract/crawl4ai.py": "crawl4ai gets HTML that was fetched before, and no network",
    "extract/pool.py": "a socket pair to its own processes",
    "extract/worker.py": "the other end of that pair",
    "sources/feed_parsing.py": "feedparser is given bytes, never an address",
    "sources/sharepoint/auth.py": "msal is given a client of ours, which asks through the fetcher",
    "extract/files.py": "feedparser is given bytes, never an address",
    "cli/serve.py": "listens, and dials nobody",
    "cli/worker.py": "listens for whoever scrapes its metrics, and dials nobody",
    "cli/demo.py": "serves the sample site on this machine, and dials nobody",
    "index/qdrant.py": "the operator's own Qdrant",
    "index/qdrant_schema.py": "says what the operator's own Qdrant is asked",
    "storage/cache_redis.py": "the operator's own Redis",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def offences(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute) and node.attr in DIALLING:
            found.append(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DIALLING:
            found.append(node.func.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "__import__":
            names = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
        found += [name for name in names if any(name == bad or name.startswith(bad + ".") for bad in CLIENTS)]
    return found


def test_no_other_module_imports_a_network_client_or_opens_a_connection() -> None:
    guilty = {name: found for name, tree in modules() if (found := offences(tree)) and name not in ALLOWED}

    assert guilty == {}


def test_everyone_who_is_allowed_to_still_needs_it() -> None:
    needed = {name for name, tree in modules() if offences(tree)}

    assert sorted(set(ALLOWED) - needed) == []


@pytest.mark.parametrize(
    "code",
    [
        "import requests",
        "from http.client import HTTPConnection",
        "from http import client",
        "import aiohttp.client as quiet",
        "async def f():\n    import socket",
        "import asyncio\nasyncio.open_connection('a', 1)",
        "loop.create_connection(p, 'a', 1)",
        "from urllib import request",
        "__import__('httpx')",
    ],
)
def test_the_test_itself_notices(code: str) -> None:
    assert offences(ast.parse(code))
