"""Client addresses behind trusted proxies: X-Forwarded-For, Forwarded, PROXY protocol."""

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from oncebox.errors import ConfigInvalid
from oncebox.server.rate_limits import parse_address

Network = IPv4Network | IPv6Network
_SCHEMES = frozenset({"http", "https"})
#: one element of a Forwarded header: its pairs, up to a comma outside quotes
_ELEMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_PAIR = re.compile(r'\s*([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))\s*(?:;|$)')
#: an address in brackets or not, with a port or not
_NODE = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::\d+)?|([^\[\]:]+)(?::\d+)?|([0-9A-Fa-f:.]+)")


class TrustedProxies:
    """Tells the address of the client from that of a proxy, and what scheme it used."""

    def __init__(self, proxies: str, *, use_forwarded: bool = False) -> None:
        """Trust these addresses and networks, separated by commas.

        Only one header is believed, since a proxy that sets one passes the other on as the
        client sent it.

        Raises: ConfigInvalid.
        """
        self._proxies = [
            _parse_network(each.strip()) for each in proxies.split(",") if each.strip()
        ]
        self._use_forwarded = use_forwarded
        # A proxy repeats itself, and addresses are slow to parse.
        self.is_trusted = lru_cache(4096)(self._is_trusted)
        self._client = lru_cache(4096)(self._find_client)

    def client(self, peer: str, headers: dict[bytes, bytes]) -> tuple[str, str]:
        """Return address and scheme of the client whose request came from a peer."""
        if not self.is_trusted(peer):
            return peer, "http"
        if self._use_forwarded:
            return self._client(peer, headers.get(b"forwarded", b""), b"")
        return self._client(
            peer, headers.get(b"x-forwarded-for", b""), headers.get(b"x-forwarded-proto", b"")
        )

    def _find_client(self, peer: str, hops: bytes, scheme: bytes) -> tuple[str, str]:
        if self._use_forwarded:
            return self._last_untrusted(peer, _forwarded_hops(hops.decode("latin-1")))
        proto = scheme.decode("latin-1")
        listed = hops.decode("latin-1").split(",") if hops else []
        address, _ = self._last_untrusted(peer, [(hop.strip(), "") for hop in listed])
        return address, proto if proto in _SCHEMES else "http"

    def _last_untrusted(self, peer: str, hops: list[tuple[str, str]]) -> tuple[str, str]:
        """Walk back from us to the first hop that is no proxy of ours; the rest may be forged."""
        last, scheme = peer, "http"
        for node, proto in reversed(hops):
            try:
                address = str(parse_address(node))
            except ValueError:
                return last, scheme
            last, scheme = address, proto if proto in _SCHEMES else "http"
            if not self.is_trusted(last):
                break
        return last, scheme

    def _is_trusted(self, address: str) -> bool:
        try:
            found = parse_address(address)
        except ValueError:  # a socket file, or a host name
            return False
        return any(found in network for network in self._proxies)


def _forwarded_hops(header: str) -> list[tuple[str, str]]:
    """Return address and scheme of each element of a Forwarded header (RFC 7239)."""
    hops = []
    for element in _ELEMENT.findall(header):
        pairs = {name.lower(): quoted or plain for name, quoted, plain in _PAIR.findall(element)}
        node = _NODE.fullmatch(pairs.get("for", ""))
        address = next(filter(None, node.groups()), "") if node else ""
        hops.append((address, pairs.get("proto", "").lower()))
    return hops


def _parse_network(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigInvalid(
            f"http.proxies contains {text!r}, which is not an address or a network such as "
            "10.0.0.0/8"
        ) from error


class ProxyHeaderError(Exception):
    """A connection that should begin with a PROXY protocol header does not."""


class ProxyHeader(NamedTuple):
    """A PROXY protocol header."""

    size: int
    #: address of the client; empty: the proxy speaks for itself
    address: str


_V1_PREFIX = b"PROXY "
_V1 = re.compile(rb"PROXY (?:UNKNOWN[^\r\n]*|(TCP[46]) (\S+) \S+ (\d{1,5}) (\d{1,5}))\r\n")
_V1_MAX = 107
_V2_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_V2_HEAD = 16
_V2_MAX = 4_096
#: bytes of an address, by address family and protocol
_V2_ADDRESSES = {0x11: 4, 0x21: 16}


def read_proxy_header(data: bytes) -> ProxyHeader | None:
    """Return the PROXY protocol header, version 1 or 2, at the beginning of data; None: too short.

    Raises: ProxyHeaderError.
    """
    if _V2_SIGNATURE.startswith(data[: len(_V2_SIGNATURE)]):
        return _read_v2(data)
    if not _V1_PREFIX.startswith(data[: len(_V1_PREFIX)]):
        raise ProxyHeaderError
    end = data.find(b"\r\n", 0, _V1_MAX)
    if end < 0:
        if len(data) >= _V1_MAX:
            raise ProxyHeaderError
        return None
    match = _V1.match(data)
    if match is None:
        raise ProxyHeaderError
    return ProxyHeader(match.end(), _checked(match[2].decode("latin-1")) if match[1] else "")


def _read_v2(data: bytes) -> ProxyHeader | None:
    if len(data) < _V2_HEAD:
        return None
    version, family = data[12], data[13]
    size = _V2_HEAD + int.from_bytes(data[14:16], "big")
    if version not in {0x20, 0x21} or size > _V2_MAX:
        raise ProxyHeaderError
    if len(data) < size:
        return None
    width = _V2_ADDRESSES.get(family, 0) if version & 1 else 0
    if size - _V2_HEAD < 2 * width:
        raise ProxyHeaderError
    address = str(ip_address(data[_V2_HEAD : _V2_HEAD + width])) if width else ""
    return ProxyHeader(size, address)


def _checked(address: str) -> str:
    try:
        return str(parse_address(address))
    except ValueError as error:
        raise ProxyHeaderError from error
