"""Errors that a caller can meet: each can be imported from where the caller looks for it."""

import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import oncebox
from oncebox import box, errors
from oncebox.client import asynchronous, sync
from oncebox.client import errors as client_errors
from oncebox.client import webhooks as client_webhooks
from oncebox.client.asynchronous import admin, attempts, deliveries, events, inboxes, sends, sources
from oncebox.client.sync import admin as sync_admin
from oncebox.client.sync import attempts as sync_attempts
from oncebox.client.sync import deliveries as sync_deliveries
from oncebox.client.sync import events as sync_events
from oncebox.client.sync import inboxes as sync_inboxes
from oncebox.client.sync import sends as sync_sends
from oncebox.client.sync import sources as sync_sources
from oncebox.errors import OnceboxError
from oncebox.errors import http as http_errors
from oncebox.errors import mail as mail_errors
from oncebox.errors import sends as send_errors
from oncebox.workers.deliveries import once

#: what a user calls
CALLED = (
    box, once, client_webhooks, asynchronous, admin, attempts, deliveries, events, inboxes, sends,
    sources, sync, sync_admin, sync_attempts, sync_deliveries, sync_events, sync_inboxes,
    sync_sends, sync_sources,
)  # fmt: skip
KINDS = {
    name: kind
    for module in (errors, http_errors, mail_errors, send_errors, client_errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, OnceboxError)
}
_RAISES = re.compile(r"Raises: (.*?)(?:\n\s*\n|$)", re.DOTALL)


def _functions(module: ModuleType) -> Iterator[object]:
    """Return the public functions and methods of a module."""
    for kind in vars(module).values():
        if getattr(kind, "__module__", "") != module.__name__:
            continue
        yield kind
        if inspect.isclass(kind):
            yield from (each for name, each in vars(kind).items() if not name.startswith("_"))


def _documented() -> set[str]:
    """Return the errors that docstrings of public functions name."""
    found: set[str] = set()
    for module in CALLED:
        for each in _functions(module):
            for said in _RAISES.findall(inspect.getdoc(each) or ""):
                found.update(name for name in re.findall(r"[A-Z]\w+", said) if name in KINDS)
    return found


def test_some_errors_are_documented() -> None:
    assert {"LeaseLost", "WaitTimedOut", "EffectOutcomeUnknown"} <= _documented()


@pytest.mark.parametrize("name", sorted(_documented() | set(vars(client_errors)) & set(KINDS)))
def test_every_error_that_a_caller_can_meet_is_exported(name: str) -> None:
    assert name in oncebox.__all__
    assert getattr(oncebox, name) is KINDS[name]
