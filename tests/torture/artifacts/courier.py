"""A sender that brings one mail after another, each again until it is told 250."""

import asyncio
import time

_TIMEOUT = 30.0
#: Seconds after which a receiver that takes nothing is given up: it is not coming back.
_PATIENCE = 180.0
_REST = 0.05


class Courier:
    """One connection to a receiver, made anew whenever it is lost."""

    def __init__(self, port: int, *, patience: float = _PATIENCE) -> None:
        """Prepare; nothing is opened before the first mail."""
        self._port = port
        self._patience = patience
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def bring(self, recipient: str, data: bytes) -> float:
        """Return when a mail was taken, by the steady clock.

        Raises: TimeoutError, when nothing is taken for very long.
        """
        async with asyncio.timeout(self._patience):
            while not await self._is_taken(recipient, data):
                self.close()
                await asyncio.sleep(_REST)
        return time.monotonic()

    def close(self) -> None:
        """Let the connection go."""
        line, self._line = self._line, None
        if line is not None:
            line[1].close()

    async def _is_taken(self, recipient: str, data: bytes) -> bool:
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._send(recipient, data)
        except (OSError, EOFError, TimeoutError, _Refused):
            return False
        return True

    async def _send(self, recipient: str, data: bytes) -> None:
        if self._line is None:
            self._line = await asyncio.open_connection("127.0.0.1", self._port)
            await self._hear("220")
            await self._say("EHLO courier.example", "250")
        await self._say("MAIL FROM:<no-reply@shop.example>", "250")
        await self._say(f"RCPT TO:<{recipient}>", "250")
        await self._say("DATA", "354")
        await self._say(data.decode() + "\r\n.", "250")

    async def _say(self, text: str, wanted: str) -> None:
        assert self._line is not None
        self._line[1].write(f"{text}\r\n".encode())
        await self._hear(wanted)

    async def _hear(self, wanted: str) -> None:
        assert self._line is not None
        while True:
            line = (await self._line[0].readuntil(b"\n")).decode()
            if line[3:4] != "-":
                break
        if not line.startswith(wanted):
            raise _Refused


class _Refused(Exception):
    """The receiver says something else than was hoped for."""


def letter(recipient: str, code: str, number: int) -> bytes:
    """Return a mail with a code."""
    lines = [
        "From: Shop <no-reply@shop.example>",
        f"To: {recipient}",
        "Subject: Confirm your sign-in",
        f"Message-ID: <{number}.{code}@shop.example>",
        "",
        f"Your verification code is {code}",
        "",
        "It is good for ten minutes.",
    ]
    return "\r\n".join(lines).encode()
