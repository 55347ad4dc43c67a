"""Chaos of webhooks: stands before who takes them, and does to a request what a rule says."""

import asyncio
from collections.abc import Callable

from oncebox.edge.guard import (
    REQUEST_ID,
    VISIT,
    App,
    Message,
    Receive,
    Scope,
    Send,
    Visit,
    visit,
)
from oncebox.refusals import ServerBusy
from oncebox.telemetry import Telemetry
from oncebox.testing.chaos_rules import HookRule

#: says what is to happen to a request, by its path
Strike = Callable[[str], HookRule | None]

_WELL = range(200, 300)
_COME_BACK = 1.0


class ChaosHooks:
    """An ASGI application before another."""

    def __init__(self, app: App, strike: Strike, telemetry: Telemetry) -> None:
        """Stand before an application."""
        self._app = app
        self._strike = strike
        self._log = telemetry.log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        rule = self._strike(scope["path"])
        if rule is None:
            await self._app(scope, receive, send)
            return
        self._log.info("chaos", door="webhook", fault=rule.fault)
        match rule.fault:
            case "duplicate":
                await self._repeat(rule, scope, receive, send)
            case "delay":
                await asyncio.sleep(rule.holds_for)
                await self._app(scope, receive, send)
            case "503":
                await visit(scope).refuse(ServerBusy, retry_after=_COME_BACK)
            case "drop_after_accept":
                await self._drop(scope, receive, send)

    async def _repeat(self, rule: HookRule, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a request again before the first is answered, so that the answer is for all."""
        messages = await _read(receive)
        answer = await self._answered(scope, messages)
        for _ in range(rule.more):
            await self._answered(scope, messages)
        for each in answer:
            await send(each)

    async def _drop(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a request, and cut the connection where it was taken."""
        answer = await self._answered(scope, await _read(receive))
        if answer and answer[0]["status"] not in _WELL:
            for each in answer:
                await send(each)
            return
        visit(scope).cut()
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _answered(self, scope: Scope, messages: list[Message]) -> list[Message]:
        """Have a request served; return its answer, which nobody has heard yet."""
        said: list[Message] = []
        left = iter(messages)

        async def receive() -> Message:
            return next(left, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            named = [each for each in message.get("headers", ()) if each[0] != REQUEST_ID]
            said.append({**message, "headers": named})  # whoever sends it on names it again

        real = visit(scope)
        alone = Visit(send, (real.address, 0), real.name)
        alone.headers = real.headers
        await self._app({**scope, VISIT: alone}, receive, send)
        return said


async def _read(receive: Receive) -> list[Message]:
    """Return all of a request."""
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    return messages
