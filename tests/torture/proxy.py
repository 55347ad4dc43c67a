"""A TCP proxy before PostgreSQL that loses answers, cuts connections and dawdles on command."""

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from tests.torture.frames import CommitWatcher, Frame, FrameReader

_CHUNK = 1 << 16


class Moment(StrEnum):
    """Where a connection can be cut."""

    #: The server has committed and says so: the answer is lost on its way.
    COMMIT_REPLY = "commit-reply"
    #: The client asks for the commit: the request never reaches the server.
    COMMIT_REQUEST = "commit-request"
    #: Any other message from the server.
    ANY_REPLY = "any-reply"


@dataclass(slots=True)
class Arming:
    """When a moment's fault strikes; each strike is counted."""

    #: How many strikes are left; None for no end.
    times: int | None = 0
    #: How likely an occasion is struck while strikes are left.
    probability: float = 1.0
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    #: Leave the connection open and silent instead of cutting it.
    hang: bool = False
    #: How many occasions there were, armed or not.
    seen: int = 0
    #: How many of them were struck.
    struck: int = 0

    def strikes(self) -> bool:
        """Decide about one occasion."""
        self.seen += 1
        if self.times == 0 or self.chance.random() >= self.probability:
            return False
        if self.times is not None:
            self.times -= 1
        self.struck += 1
        return True


class FaultProxy:
    """Stands between clients and one PostgreSQL server, in a thread of its own.

    Clients use ``url(server_url)``. Nothing is encrypted through it, so every message is seen.
    All settings may be changed from any thread while clients are connected.
    """

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._lock = threading.Lock()
        self._armings = {moment: Arming() for moment in Moment}
        self._delay = 0.0
        self._links: set[_Link] = set()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="fault-proxy", daemon=True
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._over = asyncio.Event()
        self._port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(10):
            message = "the proxy did not start"
            raise RuntimeError(message)
        return self

    def __exit__(self, *exception: object) -> None:
        self._in_loop(self._over.set)
        self._thread.join(10)

    def url(self, server_url: str | None = None) -> str:
        """Return the server's address, database and user included, led through this proxy."""
        parts = urlsplit(server_url or self._server_url)
        user = parts.netloc.rpartition("@")[0]
        netloc = f"{user}@127.0.0.1:{self._port}" if user else f"127.0.0.1:{self._port}"
        query = [
            (name, value)
            for name, value in parse_qsl(parts.query)
            if name not in {"host", "port", "sslmode", "gssencmode"}
        ]
        return urlunsplit(parts._replace(netloc=netloc, query=urlencode(query)))

    def lose_commit_replies(
        self,
        *,
        times: int | None = None,
        probability: float = 1.0,
        seed: int = 0,
        hang: bool = False,
    ) -> None:
        """Let commits happen and their answers vanish, at most so many times."""
        self.arm(Moment.COMMIT_REPLY, Arming(times, probability, random.Random(seed), hang))

    def cut_before_commits(
        self, *, times: int | None = None, probability: float = 1.0, seed: int = 0
    ) -> None:
        """Cut connections before the COMMIT reaches the server, which will roll back."""
        self.arm(Moment.COMMIT_REQUEST, Arming(times, probability, random.Random(seed)))

    def cut_any_reply(
        self, *, times: int | None = None, probability: float = 1.0, seed: int = 0
    ) -> None:
        """Cut connections before any other message of the server."""
        self.arm(Moment.ANY_REPLY, Arming(times, probability, random.Random(seed)))

    def arm(self, moment: Moment, arming: Arming) -> None:
        """Set the fault of one moment; the counts go on."""
        with self._lock:
            arming.seen = self._armings[moment].seen
            arming.struck = self._armings[moment].struck
            self._armings[moment] = arming

    def delay(self, seconds: float) -> None:
        """Hold back everything clients send by so many seconds from now on."""
        self._delay = seconds

    def heal(self) -> None:
        """Stop making faults; connections that were cut stay cut."""
        for moment in Moment:
            self.arm(moment, Arming())
        self.delay(0.0)

    def cut_all(self) -> None:
        """Cut every connection that is open now."""
        self._in_loop(self._cut_links)

    def seen(self, moment: Moment) -> int:
        """Count how often the moment came, with or without a fault."""
        with self._lock:
            return self._armings[moment].seen

    def struck(self, moment: Moment) -> int:
        """Count how often the fault was made."""
        with self._lock:
            return self._armings[moment].struck

    @property
    def lost_commits(self) -> int:
        """How many commits happened without their client being told."""
        return self.struck(Moment.COMMIT_REPLY)

    def decide(self, moment: Moment) -> Arming | None:
        """Return the fault to make at this occasion, if there is one."""
        with self._lock:
            arming = self._armings[moment]
            return arming if arming.strikes() else None

    async def pause(self) -> None:
        """Dawdle as long as ``delay`` says."""
        if self._delay > 0:
            await asyncio.sleep(self._delay)

    def _in_loop(self, action: Callable[[], None]) -> None:
        if self._loop is None:
            message = "the proxy is not running"
            raise RuntimeError(message)
        self._loop.call_soon_threadsafe(action)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        await self._over.wait()
        server.close()
        self._cut_links()
        await asyncio.gather(*(link.finished.wait() for link in self._links))

    def _cut_links(self) -> None:
        for link in self._links:
            link.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, reader, writer)
        self._links.add(link)
        try:
            await link.run(self._server_url)
        finally:
            self._links.discard(link)


class _Link:
    """One client's connection and its counterpart to the server."""

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._from_client = reader
        self._to_client = writer
        self._to_server: asyncio.StreamWriter | None = None
        self._silent = False
        self._idle = True
        self.finished = asyncio.Event()

    async def run(self, server_url: str) -> None:
        """Carry messages both ways until one side is gone or a fault cuts the link."""
        try:
            from_server, self._to_server = await _dial(server_url)
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._carry_up(self._to_server))
                ways.create_task(self._carry_down(from_server))
        except OSError:
            pass  # the server is down: the client is cut off, as it would be without us
        finally:
            self.cut()
            self.finished.set()

    def cut(self) -> None:
        """Drop both connections at once, without a farewell."""
        for writer in (self._to_client, self._to_server):
            if writer is not None:
                writer.transport.abort()

    async def _carry_up(self, to_server: asyncio.StreamWriter) -> None:
        frames = FrameReader(opens_untyped=True)
        commits = CommitWatcher()
        with self._until_gone():
            while data := await self._from_client.read(_CHUNK):
                await self._proxy.pause()
                for frame in frames.feed(data):
                    self._pass_up(frame, commits, to_server)
                await to_server.drain()

    def _pass_up(
        self, frame: Frame, commits: CommitWatcher, to_server: asyncio.StreamWriter
    ) -> None:
        if frame.asks_encryption:
            self._to_client.write(b"N")
        elif commits.is_commit(frame, alone=self._idle) and self._proxy.decide(
            Moment.COMMIT_REQUEST
        ):
            self.cut()
        elif not self._silent and not to_server.is_closing():
            to_server.write(frame.encoded())

    async def _carry_down(self, from_server: asyncio.StreamReader) -> None:
        frames = FrameReader(opens_untyped=False)
        with self._until_gone():
            while data := await from_server.read(_CHUNK):
                for frame in frames.feed(data):
                    self._pass_down(frame)
                await self._to_client.drain()

    def _pass_down(self, frame: Frame) -> None:
        if self._silent or self._to_client.is_closing():
            return
        fault = self._fault(frame)
        if (ended := frame.ends_transaction) is not None:
            self._idle = ended
        if fault is None:
            self._to_client.write(frame.encoded())
        elif fault.hang:
            self._silent = True
        else:
            self.cut()

    @contextlib.contextmanager
    def _until_gone(self) -> Iterator[None]:
        """Carry until either end is gone, then drop the other too."""
        with contextlib.suppress(ConnectionError):
            yield
        self.cut()

    def _fault(self, frame: Frame) -> Arming | None:
        if frame.says_committed(alone=self._idle):
            return self._proxy.decide(Moment.COMMIT_REPLY)
        return self._proxy.decide(Moment.ANY_REPLY)


async def _dial(server_url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the server over TCP or, when its host is a folder, over a Unix socket."""
    parts = urlsplit(server_url)
    query = dict(parse_qsl(parts.query))
    host = query.get("host") or unquote(parts.hostname or "127.0.0.1")
    port = int(query.get("port") or parts.port or 5432)
    if host.startswith("/"):
        return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
    return await asyncio.open_connection(host, port)
