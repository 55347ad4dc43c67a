"""Public internet: which IP addresses and host names are reachable from outside."""

import ipaddress
import re

import msgspec

from oncebox.errors import ConfigInvalid

#: networks that are not public; Python's own ``is_global`` accepts some of these
_REFUSED_V4 = [
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32",
        "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24",
        "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
]  # fmt: skip
#: the only block of public addresses
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
#: special networks inside it: tunnels that carry an IPv4 address, documentation, benchmarks
_REFUSED_V6 = [
    ipaddress.IPv6Network(text)
    for text in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
]
#: IPv6 networks that reach the IPv4 internet through this (RFC 6052)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LAST_32_BITS = 0xFFFFFFFF

#: last labels that no public name has: reserved for use inside (RFC 6761, 6762, 8375, 9476), or
#: so commonly used there that they will never be given out
_INTERNAL_SUFFIXES = frozenset({
    "alt", "arpa", "cluster", "consul", "corp", "docker", "home", "internal", "intra",
    "intranet", "invalid", "kube", "lan", "local", "localdomain", "localhost", "mail", "onion",
    "priv", "private", "router", "svc", "test", "workgroup",
})  # fmt: skip


def is_public_ip(address: str) -> bool:
    """Say whether an address belongs to the open internet."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in network for network in _REFUSED_V4)
    return ip in _GLOBAL_V6 and not any(ip in network for network in _REFUSED_V6)


def is_public_answer(address: str) -> bool:
    """Say whether an answer of a resolver leads to the open internet.

    An IPv4 address inside it (mapped, NAT64) is checked instead. Tunnels that carry one (6to4,
    Teredo) and all other notations are never public.
    """
    ip = _effective_ip(address)
    return ip is not None and is_public_ip(str(ip))


def _effective_ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that is reached; the IPv4 address inside an IPv6 one, if it has one."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return None
    if "%" in address:
        return None
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return ip.ipv4_mapped
        if ip in _NAT64:
            return ipaddress.IPv4Address(int(ip) & _LAST_32_BITS)
    return ip


class AllowedHosts(msgspec.Struct, frozen=True):
    """Hosts and networks that an operator allows, although they are not public."""

    #: names and addresses, with or without a port
    hosts: frozenset[str] = frozenset()
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()

    def names(self, host: str, port: int) -> bool:
        """Say whether a host is named, with this port or without one."""
        host = host.lower()
        return host in self.hosts or f"{host}:{port}" in self.hosts

    def contains(self, address: str) -> bool:
        """Say whether an address is in one of the networks."""
        ip = _effective_ip(address)
        return ip is not None and any(
            ip in each for each in self.networks if each.version == ip.version
        )


_ALLOWED_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[0-9]{1,5})?")


def parse_allowed_hosts(entries: str) -> AllowedHosts:
    """Read networks such as ``10.0.0.0/8`` and hosts such as ``app.internal:3000``, with commas.

    Raises: ConfigInvalid.
    """
    hosts: set[str] = set()
    networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
    for text in filter(None, (entry.strip().lower() for entry in entries.split(","))):
        if "/" in text:
            try:
                networks.append(ipaddress.ip_network(text))
            except ValueError as error:
                raise ConfigInvalid(_ALLOWED_FORM) from error
        elif _ALLOWED_HOST.fullmatch(text):
            hosts.add(text)
        else:
            raise ConfigInvalid(_ALLOWED_FORM)
    return AllowedHosts(frozenset(hosts), tuple(networks))


_ALLOWED_FORM = (
    "write what is allowed as networks and hosts: 10.0.0.0/8, app.internal or 127.0.0.1:3000"
)


def is_internal_name(host: str) -> bool:
    """Say whether a name, in lower case, is never one of the open internet."""
    return host.rpartition(".")[2] in _INTERNAL_SUFFIXES
