"""Proxies, chosen in turn, by use, or at random. Their addresses pass the egress guard like any other."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from scrubjay.errors import InvalidRequest
from scrubjay.model.crawling import ProxyRotation
from scrubjay.model.urls import parse_url


@dataclass(frozen=True, slots=True)
class ProxyServer:
    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str, username: str | None = None, password: str | None = None) -> "ProxyServer":
        parsed = parse_url(url, field="proxy")
        return cls(parsed.text, username or parsed.username, password or parsed.password)


class ProxyPool:
    def __init__(self, servers: Sequence[ProxyServer], rotation: ProxyRotation = ProxyRotation.ROUND_ROBIN) -> None:
        if not servers:
            raise InvalidRequest("At least one proxy server is required.", field="servers")
        self._servers = tuple(servers)
        self._rotation = rotation
        self._next = 0
        self._busy = [0] * len(servers)
        self._total = [0] * len(servers)

    @contextmanager
    def using(self) -> Iterator[ProxyServer]:
        """The proxy whose turn it is, counted as busy for as long as the context lasts."""
        index = self._choose()
        self._busy[index] += 1
        self._total[index] += 1
        try:
            yield self._servers[index]
        finally:
            self._busy[index] -= 1

    def _choose(self) -> int:
        if self._rotation is ProxyRotation.RANDOM:
            return secrets.randbelow(len(self._servers))
        if self._rotation is ProxyRotation.LEAST_USED:
            # The one with the fewest requests under way; among equals, with the fewest so far.
            return min(range(len(self._servers)), key=lambda index: (self._busy[index], self._total[index]))
        self._next += 1
        return (self._next - 1) % len(self._servers)
