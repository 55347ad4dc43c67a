"""The resolver: questions to the domain name system, bounded in time, size and memory."""

import asyncio
import ipaddress
import re
from collections.abc import Callable
from typing import Any, Protocol

import dns.asyncbackend
import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.resolver

from oncebox.errors import ConfigInvalid
from oncebox.mail_errors import NoSuchRecord, ResolverError, ResolverTrouble

_PORT = 53
_LAST_PORT = 65_535
#: an address of the old kind or one in brackets, and perhaps a port
_SERVER = re.compile(r"(?:([0-9.]+)|\[([0-9a-fA-F:.]+)\])(?::([0-9]{1,5}))?")
#: sockets at once
_MOST_QUESTIONS = 100
#: records of one answer, and their bytes; large senders publish some thirty texts at one name
_MOST_RECORDS = 100
_MOST_BYTES = 32 * 1024
#: what is remembered: this many answers, no larger and no longer than this
_MOST_REMEMBERED = 4_096
_LARGEST_REMEMBERED = 4_096
_LONGEST_REMEMBERED = 300.0
_NOTHING_REMEMBERED = 30.0
_TROUBLE_REMEMBERED = 5.0
#: larger packets are broken up on some roads and lost
_PACKET = 1_232


class Resolver(Protocol):
    """Who can be asked about names.

    Every question raises NoSuchRecord where there is none, and ResolverTrouble where nobody said.
    """

    async def txt(self, name: str) -> list[bytes]:
        """Return the texts at a name, each in one piece."""

    async def a(self, name: str) -> list[str]:
        """Return the IPv4 addresses of a host."""

    async def aaaa(self, name: str) -> list[str]:
        """Return the IPv6 addresses of a host."""

    async def mx(self, name: str) -> list[tuple[int, str]]:
        """Return the mail servers of a domain with their preference."""

    async def ptr(self, name: str) -> list[str]:
        """Return the hosts that an address, spelled as a name below ``arpa``, belongs to."""


class DnsResolver:
    """Asks real name servers, and remembers for a short while what they said."""

    def __init__(self, servers: str = "", *, within: float = 1.5) -> None:
        """Ask these servers, or the system's; one question takes no longer than ``within``.

        Whoever asks should wait a little longer: a question that is given up is not
        remembered as trouble.

        Raises: ConfigInvalid.
        """
        self._within = within
        self._resolver = _resolver(servers)
        # A lost packet is sent again while there is time for it to be answered.
        self._resolver.timeout = within / 2
        self._resolver.use_edns(0, 0, _PACKET)
        self._backend = dns.asyncbackend.get_backend("asyncio")
        self._room = asyncio.Semaphore(_MOST_QUESTIONS)
        self._memory = _Memory()

    async def txt(self, name: str) -> list[bytes]:
        """Return the texts at a name."""
        return await self._ask(name, "TXT", lambda found: b"".join(found.strings))

    async def a(self, name: str) -> list[str]:
        """Return the IPv4 addresses of a host."""
        return await self._ask(name, "A", lambda found: str(found.address))

    async def aaaa(self, name: str) -> list[str]:
        """Return the IPv6 addresses of a host."""
        return await self._ask(name, "AAAA", lambda found: str(found.address))

    async def mx(self, name: str) -> list[tuple[int, str]]:
        """Return the mail servers of a domain."""
        return await self._ask(
            name, "MX", lambda found: (int(found.preference), _text(found.exchange))
        )

    async def ptr(self, name: str) -> list[str]:
        """Return the hosts of an address."""
        return await self._ask(name, "PTR", lambda found: _text(found.target))

    async def _ask(self, name: str, kind: str, read: Callable[[Any], Any]) -> list[Any]:
        remembered = self._memory.find((kind, name))
        if remembered is None:
            remembered = await self._learn(name, kind, read)
        if isinstance(remembered, ResolverError):
            raise type(remembered)(*remembered.args)  # each caller gets one of its own
        return list(remembered)

    async def _learn(
        self, name: str, kind: str, read: Callable[[Any], Any]
    ) -> list[Any] | ResolverError:
        try:
            async with asyncio.timeout(self._within), self._room:
                answer = await self._resolver.resolve(
                    _name(name), kind, lifetime=self._within, backend=self._backend
                )
                found = _bounded(answer, read)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return self._memory.keep(
                (kind, name), NoSuchRecord("no such record"), _NOTHING_REMEMBERED
            )
        except (dns.exception.DNSException, OSError, ValueError, TimeoutError):
            trouble = ResolverTrouble("no usable answer; try again later")
            return self._memory.keep((kind, name), trouble, _TROUBLE_REMEMBERED)
        return self._memory.keep((kind, name), found, answer.chaining_result.minimum_ttl)


class _Memory:
    """Answers of the last minutes; the oldest give way."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[float, list[Any] | ResolverError]] = {}

    def find(self, question: tuple[str, str]) -> list[Any] | ResolverError | None:
        until, answer = self._kept.get(question, (0.0, None))
        return answer if _now() < until else None

    def keep(
        self, question: tuple[str, str], answer: list[Any] | ResolverError, seconds: float
    ) -> list[Any] | ResolverError:
        self._kept.pop(question, None)
        if isinstance(answer, ResolverError) or _size(answer) <= _LARGEST_REMEMBERED:
            self._kept[question] = (_now() + min(seconds, _LONGEST_REMEMBERED), answer)
        if len(self._kept) > _MOST_REMEMBERED:
            del self._kept[next(iter(self._kept))]
        return answer


def _now() -> float:
    return asyncio.get_running_loop().time()


def _resolver(servers: str) -> dns.asyncresolver.Resolver:
    if servers.strip():
        resolver = dns.asyncresolver.Resolver(configure=False)
        resolver.nameservers = [_server(server.strip()) for server in servers.split(",")]
        return resolver
    try:
        return dns.asyncresolver.Resolver()
    except dns.resolver.NoResolverConfiguration:
        # A machine without name servers: every question is trouble, and mail comes in.
        return dns.asyncresolver.Resolver(configure=False)


def _server(text: str) -> dns.nameserver.Nameserver:
    found = _SERVER.fullmatch(text)
    host, port = (found[1] or found[2], int(found[3] or _PORT)) if found else (text, _PORT)
    try:
        address = str(ipaddress.ip_address(host if port <= _LAST_PORT else ""))
    except ValueError as error:
        message = f"{text!r} is no name server; give addresses, such as 9.9.9.9 or [::1]:5353"
        raise ConfigInvalid(message) from error
    return dns.nameserver.Do53Nameserver(address, port)


def _name(text: str) -> dns.name.Name:
    labels = text.removesuffix(".").encode("ascii").split(b".")
    return dns.name.Name([*labels, b""])


def _text(name: dns.name.Name) -> str:
    return name.to_text(omit_final_dot=True).removesuffix(".")  # the root has only that dot


def _bounded(answer: dns.resolver.Answer, read: Callable[[Any], Any]) -> list[Any]:
    found = list(map(read, answer))
    if len(found) > _MOST_RECORDS or _size(found) > _MOST_BYTES:
        message = "an answer is larger than any that is needed"
        raise ValueError(message)
    return found


def _size(found: list[Any]) -> int:
    return sum(len(one) if isinstance(one, bytes) else len(str(one)) for one in found)
