"""Signed events as GitHub would send them, and a connection that sends them one by one."""

import asyncio
import hashlib
import hmac
import json

SOURCE = "github"
SECRET = "secret-of-the-torture"
_SIZE = 400


class Lost(Exception):
    """The connection ended, or was never made, before the answer was whole."""


def request(key: str) -> bytes:
    """Return one signed request; the same key always means the same bytes."""
    body = json.dumps({"key": key, "filling": "x" * _SIZE}).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    head = (
        f"POST /in/{SOURCE} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "X-GitHub-Event: push",
        f"X-GitHub-Delivery: {key}",
        f"X-Hub-Signature-256: sha256={signature}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*head, "", "")).encode() + body


class Line:
    """A connection to the server, made when it is needed and made again when it was lost."""

    def __init__(self, port: int, *, kept: bool = True) -> None:
        """Keep the connection between requests, or make one for each."""
        self._port = port
        self._kept = kept
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes) -> int:
        """Send a request and return the status of its answer.

        Raises: Lost.
        """
        try:
            status = await self._ask(request)
        except (OSError, EOFError) as error:
            self.close()
            raise Lost(type(error).__name__) from error
        if not self._kept:
            self.close()
        return status

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def _ask(self, request: bytes) -> int:
        if self._reader is None or self._writer is None or self._writer.is_closing():
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        await self._reader.readexactly(_length(head))
        return int(head[9:12])


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
