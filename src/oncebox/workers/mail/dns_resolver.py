"""DNS resolver for mail checks, with limits on time, answer size and cache.

dnspython's cache has no limit on the size of an answer or on its TTL, and forgets failures.
"""

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

from oncebox.core import clock
from oncebox.errors import ConfigInvalid
from oncebox.errors.mail import DnsRecordNotFound, ResolverError, ResolverUnavailable

_PORT = 53
_LAST_PORT = 65_535
#: an IPv4 address, or any address in brackets, and optionally a port
_SERVER = re.compile(r"(?:([0-9.]+)|\[([0-9a-fA-F:.]+)\])(?::([0-9]{1,5}))?")
#: concurrent queries
_MAX_QUERIES = 100
#: records of one answer, and their bytes; large senders publish some thirty texts at one name
_MAX_RECORDS = 100
_MAX_ANSWER_BYTES = 32 * 1024
#: limits of the cache: answers, bytes of an answer, seconds
_MAX_CACHED = 4_096
_MAX_CACHED_BYTES = 4_096
_MAX_TTL = 300.0
_NEGATIVE_TTL = 30.0
_FAILURE_TTL = 5.0
#: larger packets are fragmented on some paths and lost
_PACKET = 1_232


class Resolver(Protocol):
    """A DNS resolver; methods raise DnsRecordNotFound, or ResolverUnavailable without an answer."""

    async def txt(self, name: str) -> list[bytes]:
        """Return the TXT records of a name, each as one value."""

    async def a(self, name: str) -> list[str]:
        """Return the IPv4 addresses of a host."""

    async def aaaa(self, name: str) -> list[str]:
        """Return the IPv6 addresses of a host."""

    async def mx(self, name: str) -> list[tuple[int, str]]:
        """Return the mail servers of a domain with their preference."""

    async def ptr(self, name: str) -> list[str]:
        """Return the hosts of an address, which is given as a name below ``arpa``."""


class DnsResolver:
    """Queries name servers, and caches answers and failures for a short time."""

    def __init__(self, servers: str = "", *, within: float = 1.5) -> None:
        """Query these servers, or the system's; a query takes at most ``within`` seconds.

        Callers should wait a little longer, because a cancelled query is not cached as a failure.

        Raises: ConfigInvalid.
        """
        self._within = within
        self._resolver = _resolver(servers)
        # A lost packet is sent again while there is time for an answer.
        self._resolver.timeout = within / 2
        self._resolver.use_edns(0, 0, _PACKET)
        self._backend = dns.asyncbackend.get_backend("asyncio")
        self._semaphore = asyncio.Semaphore(_MAX_QUERIES)
        self._cache = _AnswerCache()

    async def txt(self, name: str) -> list[bytes]:
        """Return the TXT records of a name."""
        return await self._lookup(name, "TXT", lambda found: b"".join(found.strings))

    async def a(self, name: str) -> list[str]:
        """Return the IPv4 addresses of a host."""
        return await self._lookup(name, "A", lambda found: str(found.address))

    async def aaaa(self, name: str) -> list[str]:
        """Return the IPv6 addresses of a host."""
        return await self._lookup(name, "AAAA", lambda found: str(found.address))

    async def mx(self, name: str) -> list[tuple[int, str]]:
        """Return the mail servers of a domain."""
        return await self._lookup(
            name, "MX", lambda found: (int(found.preference), _name_text(found.exchange))
        )

    async def ptr(self, name: str) -> list[str]:
        """Return the hosts of an address."""
        return await self._lookup(name, "PTR", lambda found: _name_text(found.target))

    async def _lookup(self, name: str, kind: str, read: Callable[[Any], Any]) -> list[Any]:
        answer = self._cache.get((kind, name))
        if answer is None:
            answer = await self._query(name, kind, read)
        if isinstance(answer, ResolverError):
            raise type(answer)(*answer.args)  # not the cached one: a raised error has a traceback
        return list(answer)

    async def _query(
        self, name: str, kind: str, read: Callable[[Any], Any]
    ) -> list[Any] | ResolverError:
        try:
            async with asyncio.timeout(self._within), self._semaphore:
                answer = await self._resolver.resolve(
                    _dns_name(name), kind, lifetime=self._within, backend=self._backend
                )
                found = list(map(read, answer))
                if len(found) > _MAX_RECORDS or _size(found) > _MAX_ANSWER_BYTES:
                    raise ValueError("the answer exceeds a limit")  # noqa: TRY301
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return self._cache.put((kind, name), DnsRecordNotFound("no such record"), _NEGATIVE_TTL)
        except (dns.exception.DNSException, OSError, ValueError, TimeoutError):
            failure = ResolverUnavailable("no usable answer; try again later")
            return self._cache.put((kind, name), failure, _FAILURE_TTL)
        return self._cache.put((kind, name), found, answer.chaining_result.minimum_ttl)


class _AnswerCache:
    """Recent answers and failures; the oldest are evicted first."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], tuple[float, list[Any] | ResolverError]] = {}

    def get(self, question: tuple[str, str]) -> list[Any] | ResolverError | None:
        until, answer = self._entries.get(question, (0.0, None))
        return answer if clock.steady() < until else None

    def put(
        self, question: tuple[str, str], answer: list[Any] | ResolverError, seconds: float
    ) -> list[Any] | ResolverError:
        self._entries.pop(question, None)
        if isinstance(answer, ResolverError) or _size(answer) <= _MAX_CACHED_BYTES:
            self._entries[question] = (clock.steady() + min(seconds, _MAX_TTL), answer)
        if len(self._entries) > _MAX_CACHED:
            del self._entries[next(iter(self._entries))]
        return answer


def _resolver(servers: str) -> dns.asyncresolver.Resolver:
    if servers.strip():
        resolver = dns.asyncresolver.Resolver(configure=False)
        resolver.nameservers = [_nameserver(server.strip()) for server in servers.split(",")]
        return resolver
    try:
        return dns.asyncresolver.Resolver()
    except dns.resolver.NoResolverConfiguration:
        # Without name servers every query fails, but mail is still received.
        return dns.asyncresolver.Resolver(configure=False)


def _nameserver(text: str) -> dns.nameserver.Nameserver:
    found = _SERVER.fullmatch(text)
    host, port = (found[1] or found[2], int(found[3] or _PORT)) if found else (text, _PORT)
    try:
        address = str(ipaddress.ip_address(host if port <= _LAST_PORT else ""))
    except ValueError as error:
        raise ConfigInvalid(
            f"{text!r} is no name server address; use addresses such as 9.9.9.9 or [::1]:5353"
        ) from error
    return dns.nameserver.Do53Nameserver(address, port)


def _dns_name(text: str) -> dns.name.Name:
    labels = text.removesuffix(".").encode("ascii").split(b".")
    return dns.name.Name([*labels, b""])


def _name_text(name: dns.name.Name) -> str:
    return name.to_text(omit_final_dot=True).removesuffix(".")  # the root has only that dot


def _size(found: list[Any]) -> int:
    return sum(len(one) if isinstance(one, bytes) else len(str(one)) for one in found)
