"""Public internet: which IP addresses and host names are reachable from outside."""

import ipaddress

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
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inside = ip.ipv4_mapped
        if inside is None and ip in _NAT64:
            inside = ipaddress.IPv4Address(int(ip) & _LAST_32_BITS)
        if inside is not None:
            return is_public_ip(str(inside))
    return "%" not in address and is_public_ip(address)


def is_internal_name(host: str) -> bool:
    """Say whether a name, in lower case, is never one of the open internet."""
    return host.rpartition(".")[2] in _INTERNAL_SUFFIXES
