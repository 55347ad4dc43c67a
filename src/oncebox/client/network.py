"""The network of the sync client, bounded by the deadline of the call that uses it.

A socket's own timeout begins anew with every byte, so that an answer that trickles in could take
for ever.
"""

import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import httpcore2
import httpx2

from oncebox import clock

_CHUNK = 65_536


class Deadline(threading.local):
    """When the call of this thread must be over."""

    at = inf

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Set the deadline for what happens inside."""
        self.at = clock.steady() + seconds
        try:
            yield
        finally:
            self.at = inf

    def left(self, timeout: float | None, late: type[Exception]) -> float | None:
        """Return the seconds left, at most ``timeout``; raise ``late`` if there are none."""
        left = self.at - clock.steady()
        if left <= 0:
            message = "the deadline of the call has passed"
            raise late(message)
        return timeout if left == inf else min(left, inf if timeout is None else timeout)


class Transport(httpx2.HTTPTransport):
    """httpx's transport on a bounded network."""

    def __init__(self, deadline: Deadline, tls: ssl.SSLContext, limits: httpx2.Limits) -> None:
        """Connect without retries of its own, and without a look at the environment."""
        super().__init__(verify=tls, trust_env=False, retries=0, limits=limits)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=tls,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            retries=0,
            network_backend=_Network(deadline),
        )


class _Network(httpcore2.NetworkBackend):
    """Makes connections that know the deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        left = self._deadline.left(timeout, httpcore2.ConnectTimeout)
        stream = self._inner.connect_tcp(host, port, left, local_address, socket_options)
        return _Stream(stream, self._deadline)


class _Stream(httpcore2.NetworkStream):
    """A connection that knows the deadline of whoever uses it just now."""

    def __init__(self, inner: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _CHUNK):
            left = self._deadline.left(timeout, httpcore2.WriteTimeout)
            self._inner.write(buffer[start : start + _CHUNK], left)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left = self._deadline.left(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
