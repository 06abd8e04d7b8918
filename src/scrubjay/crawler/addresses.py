"""The egress guard: which addresses this deployment may dial. Behind every door, and asked again for each dial."""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from scrubjay.errors import FetchFailed, UrlBlocked

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Besides what `ipaddress` itself does not call global. Its opinion differs between Python versions, and some of
# these it calls global in all of them.
_NEVER: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",
        "168.63.129.16/32",  # public by its number, but Azure answers it inside every virtual machine
        "169.254.0.0/16",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "2001:2::/48",
        "2001:10::/28",
        "2001:20::/28",
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_COMPATIBLE = IPv6Network("::/96")
_ISATAP_MARKS = (0x00005EFE, 0x02005EFE)
_METADATA_HOSTS = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
RESOLVE_SECONDS = 10.0


class EgressGuard:
    """Lets through what is public, and what the setting `allowed_private_networks` names."""

    def __init__(self, allowed_private_networks: Iterable[Network] = ()) -> None:
        self._allowed = tuple(allowed_private_networks)
        self._may_reach = lru_cache(maxsize=4096)(self._decide)

    def check(self, address: str | Address) -> Address:
        """The address itself, or UrlBlocked; also when what it wraps (an IPv4 address in IPv6) is not allowed."""
        parsed = ip_address(address.partition("%")[0]) if isinstance(address, str) else address
        if not self._may_reach(parsed):
            raise UrlBlocked(
                f"The address {parsed} is not public. SCRUBJAY_ALLOWED_PRIVATE_NETWORKS lists the private "
                "networks that may be reached."
            )
        return parsed

    def check_host(self, host: str) -> None:
        """Refuse what can be told from the name alone: address literals, and names that clouds serve secrets under."""
        bare = host.strip("[]").rstrip(".").lower()
        if bare in _METADATA_HOSTS and not self._allowed:
            raise UrlBlocked(f"The host {bare} serves a cloud's own metadata.")
        literal = _as_literal(bare)
        if literal is not None:
            self.check(literal)

    async def resolve(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> Sequence[Address]:
        """Every address of a name, if all of them may be reached: one bad answer spoils the name."""
        self.check_host(host)
        literal = _as_literal(host.strip("[]"))
        if literal is not None:
            return [literal]
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        except TimeoutError:
            raise FetchFailed(f"The name {host} was not resolved in time.", error_type="dns") from None
        except (OSError, UnicodeError) as error:
            raise FetchFailed(f"The name {host} cannot be resolved: {error}.", error_type="dns") from error
        addresses = list(dict.fromkeys(_parse_found(entry[4][0]) for entry in found))
        for address in addresses:
            try:
                self.check(address)
            except UrlBlocked as error:
                raise UrlBlocked(f"The name {host} leads to {address}: {error.message}") from None
        if not addresses:
            raise FetchFailed(f"The name {host} has no address.", error_type="dns")
        return addresses

    def _decide(self, address: Address) -> bool:
        if any(address.version == network.version and address in network for network in self._allowed):
            return True
        # A form that carries other addresses is never better than the worst of them.
        if not all(self._decide(one) for one in unwrap(address)):
            return False
        if isinstance(address, IPv6Address) and (address.ipv4_mapped is not None or address in _NAT64):
            return True
        if any(address.version == network.version and address in network for network in _NEVER):
            return False
        return address.is_global and not address.is_multicast and not address.is_reserved


def unwrap(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses that an IPv6 address carries: mapped, compatible, NAT64, 6to4, Teredo, ISATAP."""
    if isinstance(address, IPv4Address):
        return []
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    number = int(address)
    last = IPv4Address(number & 0xFFFFFFFF)
    if address in _NAT64 or address in _LOCAL_NAT64 or (address in _COMPATIBLE and number > 1):
        return [last]
    if (number >> 32) & 0xFFFFFFFF in _ISATAP_MARKS:
        return [last]
    return []


@lru_cache(maxsize=4096)
def _as_literal(host: str) -> Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        # Decimal, hexadecimal, octal and short forms, which the system's resolver would accept as addresses.
        return IPv4Address(socket.inet_aton(host)) if host and host[0].isdigit() else None
    except OSError:
        return None


def _parse_found(text: object) -> Address:
    return ip_address(str(text).partition("%")[0])
