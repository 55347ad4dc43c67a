"""Push channel of a JMAP server: EventSource with signs of life (RFC 8620, section 7.3).

Proxies that buffer the stream are common: a channel without a sign of life in time is given up, and
the mailbox is polled.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import msgspec

from oncebox.mailboxes.api_client import ApiClient, named_headers
from oncebox.mailboxes.reader import MailboxFailure

#: failures in a row after which the channel is not opened again
_MAX_FAILURES = 3
#: intervals of the signs of life after which a channel counts as dead
_MISSED_PINGS = 2.5
_MAX_LINE_BYTES = 65_536
_MAX_EVENT_LINES = 100
_OK = 200


class _StateChange(msgspec.Struct, frozen=True):
    changed: dict[str, dict[str, str]]


class EventStreamInvalid(Exception):
    """A stream is not one of events, or too large."""


class EventParser:
    """Parses a stream of server-sent events; bounded."""

    def __init__(self) -> None:
        self._buffer = b""
        self._event = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[tuple[str, str]]:
        """Yield the name and data of each event that is complete.

        Raises: EventStreamInvalid.
        """
        # A pair of CR and LF may come in two pieces.
        *lines, self._buffer = (self._buffer + piece).replace(b"\r\n", b"\n").split(b"\n")
        if len(self._buffer) > _MAX_LINE_BYTES:
            raise EventStreamInvalid
        for line in lines:
            event = self._take_line(line.removesuffix(b"\r"))
            if event is not None:
                yield event

    def _take_line(self, line: bytes) -> tuple[str, str] | None:
        if len(line) > _MAX_LINE_BYTES or len(self._data) > _MAX_EVENT_LINES:
            raise EventStreamInvalid
        if not line:
            event = (self._event or "message", "\n".join(self._data))
            complete = bool(self._event or self._data)
            self._event, self._data = "", []
            return event if complete else None
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        return None


class EventSource:
    """Listens for changes of one account's mail, in a task of its own."""

    def __init__(self, client: ApiClient, url: str, account: str, *, ping: float) -> None:
        self._client = client
        self._url = url
        self._account = account
        self._ping = ping
        self._failures = 0
        self._changed = asyncio.Event()
        self._has_news = False
        self._is_open = False
        self._heard_at = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it is worth trying."""
        return self._failures < _MAX_FAILURES

    @property
    def is_open(self) -> bool:
        """Whether events are received now."""
        return self._is_open and self._task is not None and not self._task.done()

    async def open(self, within: float) -> bool:
        """Connect; tell whether events are received from now on."""
        await self.close()
        self._task = asyncio.create_task(self._listen())
        try:
            async with asyncio.timeout(within):
                while not self._is_open and not self._task.done():
                    await self._next_change()
        except TimeoutError:
            pass
        if not self.is_open:
            self._failures += 1
            await self.close()
        return self.is_open

    async def wait(self, seconds: float) -> bool:
        """Return True at news; False after the time, or when the channel is over or silent."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.is_open or self._has_news:
            if self._has_news:
                self._has_news = False
                return True
            silent_at = self._heard_at + self._ping * _MISSED_PINGS
            try:
                async with asyncio.timeout_at(min(until, silent_at)):
                    await self._next_change()
            except TimeoutError:
                if loop.time() >= until:
                    return False
                if loop.time() >= self._heard_at + self._ping * _MISSED_PINGS:
                    break
        self._failures += 1
        await self.close()
        return False

    async def close(self) -> None:
        """Disconnect."""
        task, self._task = self._task, None
        self._is_open = False
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(task, return_exceptions=True)

    async def _next_change(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    async def _listen(self) -> None:
        try:
            await self._read()
        except (MailboxFailure, EventStreamInvalid, OSError):
            pass
        except Exception:  # noqa: BLE001, S110 - of the HTTP library; the mailbox is polled instead
            pass
        finally:
            self._is_open = False
            self._changed.set()

    async def _read(self) -> None:
        headers = {"accept": "text/event-stream", "cache-control": "no-cache"}
        parser = EventParser()
        async with self._client.open("GET", self._url, headers=headers) as answer:
            kind = named_headers(answer).get("content-type", "").partition(";")[0]
            if answer.status != _OK or kind.strip().lower() != "text/event-stream":
                raise EventStreamInvalid
            self._is_open = True
            self._hear()
            async for piece in answer.aiter_stream():
                self._hear()
                for event, data in parser.feed(piece):
                    self._take_event(event, data)

    def _hear(self) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self._changed.set()

    def _take_event(self, event: str, data: str) -> None:
        self._failures = 0
        if event not in {"state", "message"}:
            return
        try:
            change = msgspec.json.decode(data, type=_StateChange)
        except (msgspec.MsgspecError, UnicodeError):
            return
        if change.changed.get(self._account):
            self._has_news = True
            self._changed.set()
