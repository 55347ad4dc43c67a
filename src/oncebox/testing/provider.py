"""A mail provider that fails as told, and lists what it really took.

    with ScriptedProvider() as provider:
        provider.script("accept_then_drop", "429(2)")
        ...  # send to provider.url, with any key such as re_test
        assert provider.count("<id@example.com>") == 1

It speaks HTTP as Resend does, or as another personality. In a synchronous block it runs in a
thread of its own, in an asynchronous one in the running loop. Other processes ask it by
``GET /__accepted`` and tell it by ``POST /__script`` with ``{"faults": […], "always": …}``.
"""

import asyncio
import threading
from typing import Any, Self

import httpx2
import msgspec

from oncebox import clock
from oncebox.testing.personalities.personality import (
    Hook,
    Personality,
    Request,
    Response,
    Taken,
)
from oncebox.testing.personalities.resend import Resend
from oncebox.testing.provider_exchange import Exchange, House
from oncebox.testing.provider_script import Fault, Script

_STOPS_WITHIN = 10.0


class ScriptedProvider:
    """A server on this machine. What it lists may be read from any thread, at any time."""

    def __init__(
        self, personality: Personality | None = None, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        """Prepare; 0 takes any free port."""
        self.host = host
        self.port = port
        self.personality = personality or Resend()
        self._ahead = 0.0
        self._script = Script()
        self._house = House(self.personality, self._script, self._now)
        self._server: asyncio.Server | None = None
        self._exchanges: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: OSError | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.host}:{self.port}"

    # What it does

    def script(self, *faults: Fault | str) -> None:
        """Let these happen to the next requests that bring mail; see ``Fault.named``."""
        self._script.add(*faults)

    def always(self, fault: Fault | str | None) -> None:
        """Let this happen to every such request; None: all goes well again."""
        self._script.always(fault)

    def advance(self, seconds: float) -> None:
        """Move its clock on, by which it forgets keys and counts requests."""
        self._ahead += seconds

    def hook(self, event: str, taken: Taken, secret: str, **details: Any) -> Hook:
        """Return a signed webhook about a mail that was taken, such as ``email.delivered``."""
        return self.personality.hook(event, taken, secret, **details)

    def tell(self, url: str, event: str, taken: Taken, secret: str, **details: Any) -> int:
        """Send such a webhook; return the status of the answer."""
        hook = self.hook(event, taken, secret, **details)
        return httpx2.post(url, content=hook.body, headers=hook.headers).status_code

    # What it saw

    @property
    def accepted(self) -> list[Taken]:
        """Every mail that was really taken, whatever the client was told."""
        return list(self.personality.accepted)

    def count(self, message_id: str) -> int:
        """How often a mail was really taken."""
        return sum(each.message_id == message_id for each in self.accepted)

    @property
    def received(self) -> list[Request]:
        """Every request that brought mail, as far as it came."""
        return list(self._house.received)

    @property
    def connections(self) -> int:
        """How many clients came."""
        return self._house.connections

    @property
    def script_is_over(self) -> bool:
        """Whether everything in the script has happened."""
        return self._script.is_over

    # How it runs

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._welcome, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None  # noqa: S101 - it was entered
        self._server.close()
        for exchange in self._exchanges:
            exchange.cancel()
        await asyncio.gather(*self._exchanges, return_exceptions=True)
        await self._server.wait_closed()

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(ready)), name="scripted-provider", daemon=True
        )
        self._thread.start()
        if not ready.wait(_STOPS_WITHIN) or self._loop is None:
            message = f"no server could be started on {self.host}:{self.port}"
            raise OSError(message) from self._failure
        return self

    def __exit__(self, *error: object) -> None:
        assert self._loop is not None  # noqa: S101 - it was entered
        assert self._stop is not None  # noqa: S101 - as above
        assert self._thread is not None  # noqa: S101 - as above
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STOPS_WITHIN)

    async def _serve(self, ready: threading.Event) -> None:
        self._stop = asyncio.Event()
        try:
            async with self:
                self._loop = asyncio.get_running_loop()
                ready.set()
                await self._stop.wait()
        except OSError as error:
            self._failure = error
            ready.set()

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = asyncio.get_running_loop().create_task(self._attend(reader, writer))
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanges.discard)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await Exchange(self._house, reader, writer, self._control).run()
        except asyncio.CancelledError:
            writer.transport.abort()
            raise

    def _now(self) -> float:
        return clock.steady() + self._ahead

    def _control(self, request: Request) -> Response | None:
        """Answer those who ask the server itself."""
        if (request.method, request.path) == ("GET", "/__accepted"):
            return _json([_shown(each) for each in self.accepted])
        if (request.method, request.path) == ("POST", "/__script"):
            try:
                wish = msgspec.json.decode(request.body, type=_Wish)
                self.script(*wish.faults)
                if wish.always is not msgspec.UNSET:
                    self.always(wish.always)
            except (msgspec.DecodeError, ValueError) as error:
                return Response(status=400, body=str(error).encode())
            return Response(status=204)
        return None


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    """What another process wants to happen."""

    faults: list[str] = []
    always: str | msgspec.UnsetType | None = msgspec.UNSET


def _json(value: object) -> Response:
    body = msgspec.json.encode(value)
    return Response(status=200, body=body, headers={"content-type": "application/json"})


def _shown(taken: Taken) -> dict[str, Any]:
    return {
        "id": taken.id,
        "key": taken.key,
        "message_id": taken.message_id,
        "recipients": taken.recipients,
        "tags": taken.tags,
    }
