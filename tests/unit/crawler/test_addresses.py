"""The egress guard: what may be dialled, in every way of writing it."""

import asyncio
import socket
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from scrubjay.crawler.addresses import EgressGuard, unwrap
from scrubjay.errors import FetchFailed, UrlBlocked

INSIDE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "168.63.129.16", "100.64.0.1", "100.100.100.200", "192.0.0.1", "192.0.0.170", "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::8.8.8.8",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:100.64.0.1", "::ffff:0.0.0.0",
    "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "64:ff9b:1::10.0.0.1",
    "2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::", "2002:c0a8:101::",
    "2001:0:7f00:1::", "2001:0:a9fe:a9fe:0:0:f5ff:fffe", "2001:0:808:808:0:0:f5ff:fffe",
    "2a00:1450::5efe:10.0.0.1", "2a00:1450::200:5efe:192.168.0.1",
    "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1", "2001:db8::1", "2001:2::1", "2001:10::1",
    "2001:20::1", "3fff::1", "5f00::1",
]  # fmt: skip
OUTSIDE = [
    "8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "169.253.0.1", "192.0.1.1",
    "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:4860:4860::8888", "2606:4700:4700::1111",
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(UrlBlocked):
        EgressGuard().check(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_a_public_address_passes(address: str) -> None:
    assert str(EgressGuard().check(address)) == str(ip_address(address))


def test_a_zone_does_not_hide_a_link_local_address() -> None:
    with pytest.raises(UrlBlocked):
        EgressGuard().check("fe80::1%eth0")


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("::ffff:10.1.2.3", ["10.1.2.3"]),
        ("64:ff9b::a01:203", ["10.1.2.3"]),
        ("2002:a01:203::", ["10.1.2.3"]),
        ("2001:0:a01:203:0:0:f5fe:fdfc", ["10.1.2.3", "10.1.2.3"]),
        ("2a00::5efe:a01:203", ["10.1.2.3"]),
        ("2606:4700::1", []),
        ("10.1.2.3", []),
    ],
)
def test_what_an_address_carries_is_found(address: str, inside: list[str]) -> None:
    assert [str(one) for one in unwrap(ip_address(address))] == inside


def test_an_allowed_network_opens_itself_and_nothing_else() -> None:
    guard = EgressGuard([ip_network("127.0.0.0/8"), ip_network("fd00::/8")])

    for address in ("127.0.0.1", "::ffff:127.0.0.1", "fd12::1", "8.8.8.8"):
        guard.check(address)
    for address in ("10.0.0.1", "::1", "fc00::1", "169.254.169.254", "::ffff:10.0.0.1"):
        with pytest.raises(UrlBlocked, match="SCRUBJAY_ALLOWED_PRIVATE_NETWORKS"):
            guard.check(address)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1", "127.1", "127.0.1", "0", "0x0",
        "3232235777", "[::1]", "::1", "[::ffff:127.0.0.1]", "metadata.google.internal", "METADATA.google.internal.",
        "instance-data", "metadata",
    ],
)  # fmt: skip
def test_a_host_that_means_an_inner_address_is_refused_by_its_name_alone(host: str) -> None:
    with pytest.raises(UrlBlocked):
        EgressGuard().check_host(host)


@pytest.mark.parametrize("host", ["example.org", "8.8.8.8", "134744072", "1e100.net", "7.example", "[2606:4700::1]"])
def test_other_hosts_pass_by_name(host: str) -> None:
    EgressGuard().check_host(host)


def answers(*addresses: str) -> Any:
    """A resolver that gives these addresses to whoever asks."""

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        kinds = {4: socket.AF_INET, 6: socket.AF_INET6}
        return [(kinds[ip_address(one).version], socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    return getaddrinfo


async def test_one_inner_address_among_public_ones_spoils_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", answers("93.184.216.34", "10.0.0.7"))

    with pytest.raises(UrlBlocked, match=r"10\.0\.0\.7"):
        await EgressGuard().resolve("mixed.example", 80)


async def test_a_name_with_public_addresses_only_gives_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", answers("93.184.216.34", "2606:4700::1"))

    found = await EgressGuard().resolve("good.example", 443)

    assert [str(address) for address in found] == ["93.184.216.34", "2606:4700::1"]


async def test_an_unknown_name_is_a_dns_failure() -> None:
    with pytest.raises(FetchFailed) as failure:
        await EgressGuard().resolve("nothing-here.invalid", 80)

    assert failure.value.error_type == "dns"


async def test_a_literal_is_checked_without_asking_anybody() -> None:
    assert [str(one) for one in await EgressGuard().resolve("8.8.8.8", 80)] == ["8.8.8.8"]
    with pytest.raises(UrlBlocked):
        await EgressGuard().resolve("0x7f000001", 80)
