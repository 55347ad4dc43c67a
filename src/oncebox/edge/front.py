"""The front: one ASGI application for the port; the path alone decides who answers."""

from collections.abc import Awaitable

from oncebox.config import HttpSettings
from oncebox.edge.express import Taker
from oncebox.edge.guard import HOOKS, VISIT, App, Guard, Receive, Scope, Send
from oncebox.telemetry import Telemetry


class Front:
    """Hands webhooks to their own application, without a detour, and the rest to the API."""

    def __init__(self, api: App, hooks: App | None) -> None:
        """Without ``hooks``, their paths are unknown like any other."""
        self._api = api
        self._hooks = hooks

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve one request."""
        if self._hooks is None or scope["type"] != "http" or not scope["path"].startswith(HOOKS):
            return self._api(scope, receive, send)
        scope[VISIT].route = HOOKS
        return self._hooks(scope, receive, send)


def front(
    api: App,
    hooks: App | None,
    settings: HttpSettings,
    telemetry: Telemetry,
    taker: Taker | None = None,
) -> Guard:
    """Return everything a port serves, behind the guard.

    ``taker`` takes webhooks the short way; without it, or where it leaves one, ``hooks`` does.
    """
    return Guard(Front(api, hooks), settings, telemetry, taker)
