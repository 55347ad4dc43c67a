"""Outgoing HTTP: public addresses only, pinned after DNS, no redirects, no retries, bounded.

A name is resolved once, all its addresses must be public, and the connection goes to one of
them. Nothing is read from the environment (proxies, netrc), and no proxy is used.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from urllib.parse import urlsplit

import httpcore2
import msgspec

from oncebox.errors import EgressFailed, EgressRefused
from oncebox.model.public_internet import AllowedHosts, is_public_answer

_OK = 200
_HTTPS = 443
_DEFAULT_PORTS = {"http": 80, "https": _HTTPS}
#: seconds that the body of an answer may take of which only the beginning is wanted
_EXCERPT_WITHIN = 1.0
_MAX_POST_CONNECTIONS = 100

#: returns every address of a host
Resolve = Callable[[str, int], Awaitable[list[str]]]


async def _system_resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class EgressResponse(msgspec.Struct, frozen=True):
    """An answer, whatever its status."""

    status: int
    #: by lower-case names; the last of each
    headers: Mapping[str, str]
    #: None if it could not be read to its end, or is too large
    body: bytes | None


class Egress:
    """Fetches small documents from named hosts, and posts to them."""

    def __init__(
        self,
        *,
        resolve: Resolve = _system_resolve,
        tls: ssl.SSLContext | None = None,
        local: Iterable[str] = (),
        allowed: AllowedHosts = AllowedHosts(),  # noqa: B008 - frozen
        any_port: bool = False,
        connections: int = 10,
    ) -> None:
        """Go out with these certificates; ``local`` names hosts:ports that tests may reach.

        ``allowed`` are hosts and networks that may be reached although they are not public, also
        by plain HTTP if a host is named; ``any_port`` allows other ports than 443 everywhere.
        """
        self._local = frozenset(local)
        self._allowed = allowed
        self._any_port = any_port
        context, network = (
            tls or ssl.create_default_context(),
            _PinnedNetworkBackend(resolve, self._local, allowed),
        )
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            network_backend=network,
            max_connections=connections,
            http2=False,
            retries=0,
        )
        # Each POST has a connection of its own: an idle one that the server has just closed would
        # accept the headers, and the outcome of the body would be unknown.
        self._post_pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            network_backend=network,
            max_connections=_MAX_POST_CONNECTIONS,
            max_keepalive_connections=0,
            http2=False,
            retries=0,
        )

    async def get(self, url: str, *, most: int = 65_536, within: float = 5.0) -> bytes:
        """Return the body of a 200 answer.

        Raises: EgressRefused, EgressFailed.
        """
        self.check_url(url)
        try:
            async with asyncio.timeout(within):
                return await self._fetch(url, most)
        except (TimeoutError, OSError, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise EgressFailed("a key service did not answer; try again in a moment") from error
        except (httpcore2.TimeoutException, httpcore2.UnsupportedProtocol) as error:
            raise EgressFailed(
                "a key service did not answer in time; try again in a moment"
            ) from error

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], most: int, within: float
    ) -> EgressResponse:
        """Send a GET and return the response; redirects are not followed.

        Raises: EgressRefused, EgressFailed.
        """
        self.check_url(url)
        given = {"accept": "*/*", "user-agent": "oncebox", "accept-encoding": "identity", **headers}
        try:
            async with (
                asyncio.timeout(within),
                self._pool.stream("GET", url, headers=list(given.items())) as answer,
            ):
                return EgressResponse(
                    answer.status, _named_headers(answer), await _read_bounded(answer, most)
                )
        except (TimeoutError, *_NETWORK_ERRORS) as error:
            raise EgressFailed("the server did not answer; try again in a moment") from error

    async def post(
        self,
        url: str,
        body: AsyncIterator[bytes],
        *,
        headers: Mapping[str, str],
        most: int = 65_536,
    ) -> EgressResponse:
        """Send once, and return the response, whatever its status.

        The body is pulled once the connection is established, with TLS, and the headers are
        written; an error of its generator is passed on and ends the request. Without
        ``content-length`` in the headers it is sent in chunks. The caller sets time limits.

        Raises: EgressRefused, EgressFailed.
        """
        self.check_url(url)
        given = {"accept": "application/json", "user-agent": "oncebox", **headers}
        try:
            async with self._post_pool.stream(
                "POST", url, headers=list(given.items()), content=body
            ) as answer:
                return EgressResponse(
                    answer.status, _named_headers(answer), await _read_bounded(answer, most)
                )
        except _NETWORK_ERRORS as error:
            raise EgressFailed("the server did not answer; the outcome is unknown") from error

    async def deliver(
        self,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        most: int,
        within: float,
    ) -> EgressResponse:
        """POST a body and return the response with the first ``most`` bytes of its body.

        Connections are kept, so a request may fail although the server is well: the caller
        repeats it. Once the status is known, the answer counts, whatever becomes of its body.

        Raises: EgressRefused, EgressFailed.
        """
        self.check_url(url)
        try:
            async with (
                asyncio.timeout(within),
                self._pool.stream(
                    "POST", url, headers=list(headers.items()), content=body
                ) as answer,
            ):
                excerpt = await _read_excerpt(answer, most)
                return EgressResponse(answer.status, _named_headers(answer), excerpt)
        except TimeoutError as error:
            raise EgressFailed(f"no answer within {within:g} seconds") from error
        except ssl.SSLError as error:
            raise EgressFailed("the TLS connection failed; check the certificate") from error
        except socket.gaierror as error:
            raise EgressFailed("the name of the host was not found") from error
        except _NETWORK_ERRORS as error:
            raise EgressFailed(f"the connection failed ({type(error).__name__})") from error

    def check_url(self, url: str) -> None:
        """Refuse what is never requested: other schemes, user names, unusual ports.

        Raises: EgressRefused.
        """
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        plain = parts.scheme == "https" and (self._any_port or port in {None, _HTTPS})
        named = parts.scheme in {"http", "https"} and (
            f"{host}:{port}" in self._local
            or self._allowed.names(host, port or _DEFAULT_PORTS[parts.scheme])
        )
        if not host or parts.username is not None or not (plain or named):
            if self._any_port:
                raise EgressRefused(
                    "only https addresses are requested, and http where the setting egress.allow "
                    "names the host"
                )
            raise EgressRefused("only https addresses on the usual port are fetched")

    async def _fetch(self, url: str, most: int) -> bytes:
        headers = {"accept": "*/*", "user-agent": "oncebox", "accept-encoding": "identity"}
        async with self._pool.stream("GET", url, headers=list(headers.items())) as answer:
            if answer.status != _OK:
                raise EgressFailed(f"a key service answered {answer.status}; try again later")
            body = b""
            async for piece in answer.aiter_stream():
                body += piece
                if len(body) > most:
                    raise EgressRefused(f"a key service answered with over {most} bytes")
            return body

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()
        await self._post_pool.aclose()


_NETWORK_ERRORS = (
    OSError,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)


def _named_headers(answer: httpcore2.Response) -> dict[str, str]:
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers
    }


async def _read_bounded(answer: httpcore2.Response, most: int) -> bytes | None:
    """Return the body of a response; None: it failed, but the status is valid."""
    body = b""
    try:
        async for piece in answer.aiter_stream():
            body += piece
            if len(body) > most:
                return None
    except _NETWORK_ERRORS:
        return None
    return body


async def _read_excerpt(answer: httpcore2.Response, most: int) -> bytes:
    """Return the beginning of a response's body, as far as it comes soon."""
    body = b""
    try:
        async with asyncio.timeout(_EXCERPT_WITHIN):
            async for piece in answer.aiter_stream():
                body += piece
                if len(body) >= most:
                    break
    except (TimeoutError, *_NETWORK_ERRORS):
        pass
    return body[:most]


class _PinnedNetworkBackend(httpcore2.AsyncNetworkBackend):
    """Connects to checked addresses, never to a name."""

    def __init__(self, resolve: Resolve, local: frozenset[str], allowed: AllowedHosts) -> None:
        self._resolve = resolve
        self._local = local
        self._allowed = allowed
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's name
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._resolve(host, port)
        if not (f"{host}:{port}" in self._local or self._allowed.names(host, port)) and not all(
            is_public_answer(each) or self._allowed.contains(each) for each in addresses
        ):
            raise EgressRefused("a host has an address that is not public; it is not fetched")
        if not addresses:
            raise EgressFailed("a host has no address; try again later")
        return await self._inner.connect_tcp(
            addresses[0], port, timeout, local_address, socket_options
        )

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)
