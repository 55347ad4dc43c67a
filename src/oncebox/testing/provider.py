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
from typing import Any

import httpx2
import msgspec

from oncebox import clock
from oncebox.testing.loopback import Loopback
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


class ScriptedProvider(Loopback):
    """A server on this machine. What it lists may be read from any thread, at any time."""

    def __init__(
        self, personality: Personality | None = None, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        """Prepare; 0 takes any free port."""
        super().__init__(host, port)
        self.personality = personality or Resend()
        self._ahead = 0.0
        self._script = Script()
        self._house = House(self.personality, self._script, self._now)

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

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak HTTP with one client."""
        await Exchange(self._house, reader, writer, self._control).run()

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
