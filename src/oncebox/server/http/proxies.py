"""Client addresses behind trusted proxies: X-Forwarded-For, Forwarded, PROXY protocol."""

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from oncebox.errors import ConfigInvalid
from oncebox.model.client_address import parse_address
from oncebox.server.http.request_parsing import RequestHead

Network = IPv4Network | IPv6Network
_SCHEMES = frozenset({"http", "https"})
#: a pair of a Forwarded header, and the whole header: elements of pairs
_PAIR = re.compile(r'([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))')
_ELEMENT = rf"\s*{_PAIR.pattern}(?:\s*;\s*{_PAIR.pattern})*\s*"
_FORWARDED = re.compile(rf"{_ELEMENT}(?:,{_ELEMENT})*")
_NEXT_ELEMENT = re.compile(_ELEMENT)
#: an address in brackets or not, with a port or not
_NODE = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::\d+)?|([0-9.]+)(?::\d+)?|([0-9A-Fa-f:.]+)")
#: bytes of headers up to which the address found is remembered
_MAX_REMEMBERED = 256


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
        self._header = b"forwarded" if use_forwarded else b"x-forwarded-for"
        self._read_hops = _forwarded_hops if use_forwarded else _plain_hops
        # A proxy repeats itself, and addresses are slow to parse.
        self.is_trusted = lru_cache(4096)(self._is_trusted)
        self._remembered = lru_cache(4096)(self._find_client)

    def client(self, peer: str, head: RequestHead) -> tuple[str, str]:
        """Return address and scheme of the client whose request came from a peer."""
        if not self.is_trusted(peer):
            return peer, "http"
        lines: tuple[bytes, ...] = (head.by_name.get(self._header, b""),)
        if len(head.by_name) < len(head.fields):
            lines = tuple([value for name, value in head.fields if name == self._header])
        scheme = head.by_name.get(b"x-forwarded-proto", b"")
        is_short = sum(map(len, lines), len(scheme)) <= _MAX_REMEMBERED
        find = self._remembered if is_short else self._find_client
        return find(peer, lines, scheme)

    def _find_client(self, peer: str, lines: tuple[bytes, ...], scheme: bytes) -> tuple[str, str]:
        # A proxy may add a line of its own behind those of the client.
        hops = [hop for line in lines for hop in self._read_hops(line.decode("latin-1"))]
        address, proto = self._last_untrusted(peer, hops)
        if self._header == b"x-forwarded-for":
            proto = scheme.decode("latin-1").lower()
        return address, proto if proto in _SCHEMES else "http"

    def _last_untrusted(self, peer: str, hops: list[tuple[str, str]]) -> tuple[str, str]:
        """Walk back from us to the first hop that is no proxy of ours; the rest may be forged."""
        last, scheme = peer, "http"
        for node, proto in reversed(hops):
            found = _NODE.fullmatch(node)
            try:
                last = str(parse_address(next(filter(None, found.groups())) if found else ""))
            except ValueError:
                break
            scheme = proto
            if not self.is_trusted(last):
                break
        return last, scheme

    def _is_trusted(self, address: str) -> bool:
        try:
            found = parse_address(address)
        except ValueError:  # a socket file, or a host name
            return False
        return any(found in network for network in self._proxies)


def _plain_hops(line: str) -> list[tuple[str, str]]:
    return [(hop.strip(), "") for hop in line.split(",")]


def _forwarded_hops(line: str) -> list[tuple[str, str]]:
    """Return address and scheme of each element of a Forwarded header (RFC 7239).

    A quote that the client left open would hide what the proxy added: such a line tells nothing.
    """
    if not _FORWARDED.fullmatch(line):
        return [("", "")]
    hops = []
    for element in _NEXT_ELEMENT.finditer(line):
        pairs = {name.lower(): quoted or plain for name, quoted, plain in _PAIR.findall(element[0])}
        hops.append((pairs.get("for", ""), pairs.get("proto", "").lower()))
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
_V1 = re.compile(
    rb"PROXY (?:UNKNOWN(?: [^\r\n]*)?|TCP([46]) ([0-9A-Fa-f:.]+) ([0-9A-Fa-f:.]+) "
    rb"(\d{1,5}) (\d{1,5}))\r\n"
)
_V1_MAX = 107
_MAX_PORT = 65_535
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
    if not match[1]:
        return ProxyHeader(match.end(), "")
    if max(int(match[4]), int(match[5])) > _MAX_PORT:
        raise ProxyHeaderError
    address, _ = (_v1_address(match[each].decode(), int(match[1])) for each in (2, 3))
    return ProxyHeader(match.end(), address)


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
    if not width:
        return ProxyHeader(size, "")
    address = ip_address(data[_V2_HEAD : _V2_HEAD + width])
    return ProxyHeader(size, str(parse_address(str(address))))


def _v1_address(text: str, version: int) -> str:
    try:
        found = ip_address(text)
    except ValueError as error:
        raise ProxyHeaderError from error
    if found.version != version:
        raise ProxyHeaderError
    return str(parse_address(text))
