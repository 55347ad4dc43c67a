"""The methods of both clients show their parameters and their return types."""

import inspect
import pydoc
import typing
from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

import pytest

from oncebox.client import (
    Action,
    AsyncAction,
    AsyncAttempt,
    AsyncClient,
    AsyncGrant,
    AsyncInbox,
    AsyncWork,
    Attempt,
    Client,
    Grant,
    Inbox,
    Work,
    send_request,
)
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import Intent, SendOptions
from oncebox.schemas import inboxes as schemas
from oncebox.schemas.access import CurrentKey
from oncebox.schemas.deliveries import Delivery
from oncebox.schemas.events import Event
from oncebox.schemas.messages import Message
from oncebox.schemas.sends import SendAnswer
from oncebox.schemas.sources import CreatedSource
from tests.support.client_api import resources
from tools import sync_client

PAIRS: list[tuple[type[Any], type[Any]]] = [
    (Client, AsyncClient),
    (Inbox, AsyncInbox),
    (Attempt, AsyncAttempt),
    (Action, AsyncAction),
    (Work, AsyncWork),
    *zip(resources(Client).values(), resources(AsyncClient).values(), strict=True),
]
METHODS = [
    pytest.param(getattr(sync, name), getattr(later, name), id=f"{sync.__name__}.{name}")
    for sync, later in PAIRS
    for name, value in inspect.getmembers(sync, inspect.isfunction)
    if not name.startswith("_")
]
#: these take the arguments of the user's function
FORWARDS = {"Work.do", "Attempt.do", "AsyncWork.do", "AsyncAttempt.do"}
#: of the internals, which no signature may show
INTERNAL = ("Call[", "Generator", "Coroutine", "Unpack", "ListFollower")


def _check_sync_types(client: Client) -> None:
    """Checked by mypy, never called."""
    email = Email(to="ann@example.com")
    inbox = client.inboxes.create(attempt_id="signup-42")
    assert_type(inbox, Inbox)
    assert_type(inbox.id, str)
    assert_type(inbox.wait_for_code(), Grant)
    assert_type(inbox.messages(follow=True), Iterator[Message])
    assert_type(inbox.close(), schemas.Inbox)
    assert_type(client.inboxes.list(), Iterator[schemas.Inbox])
    assert_type(client.send(email, event_type="order", entity_id="1"), SendAnswer)
    assert_type(client.sends.send(email, key="k"), SendAnswer)
    assert_type(client.keys.mine(), CurrentKey)
    assert_type(client.deliveries.list(state="dead"), Iterator[Delivery])
    assert_type(client.deliveries.work("jobs"), Iterator[Work])
    assert_type(client.events.follow(), Iterator[Event])
    assert_type(client.sources.add("jobs", "none", mode="pull"), CreatedSource)
    assert_type(client.attempt("signup-42").action("verify").begin(), Action)
    assert_type(client.within(5), Client)
    client.inboxes.create(atempt_id="typo")  # type: ignore[call-arg]
    client.send(email, entity="typo")  # type: ignore[call-arg]


async def _check_async_types(client: AsyncClient) -> None:
    """Checked by mypy, never called."""
    email = Email(to="ann@example.com")
    inbox = await client.inboxes.create(attempt_id="signup-42")
    assert_type(inbox, AsyncInbox)
    assert_type(await inbox.wait_for_link(host="example.com"), AsyncGrant)
    assert_type(inbox.messages(), AsyncIterator[Message])
    assert_type(client.inboxes.list(), AsyncIterator[schemas.Inbox])
    assert_type(await client.send(email, key="k"), SendAnswer)
    assert_type(await client.keys.mine(), CurrentKey)
    assert_type(client.deliveries.work("jobs"), AsyncIterator[AsyncWork])
    assert_type(client.events.follow(), AsyncIterator[Event])
    assert_type(await client.attempt("signup-42").action("verify").begin(), AsyncAction)
    assert_type(client.within(5), AsyncClient)


@pytest.mark.parametrize(("sync", "later"), METHODS)
def test_signature_shows_the_parameters_and_the_result(sync: Any, later: Any) -> None:
    for function in (sync, later):
        signature = inspect.signature(function)
        kinds = {each.kind for each in signature.parameters.values()}
        assert function.__qualname__ in FORWARDS or inspect.Parameter.VAR_KEYWORD not in kinds
        assert signature.return_annotation is not inspect.Signature.empty
        assert not any(name in str(signature) for name in INTERNAL)
        assert function.__doc__


@pytest.mark.parametrize(("sync", "later"), METHODS)
def test_annotations_resolve(sync: Any, later: Any) -> None:
    every = {each.__name__: each for pair in PAIRS for each in pair}
    for function in (sync, later):
        hints = typing.get_type_hints(function, localns=every)
        assert "return" in hints


@pytest.mark.parametrize(("sync", "later"), METHODS)
def test_both_clients_take_the_same_parameters(sync: Any, later: Any) -> None:
    taken = [
        [(each.name, each.kind, each.default) for each in signature.parameters.values()]
        for signature in (inspect.signature(sync), inspect.signature(later))
    ]

    assert taken[0] == taken[1]


@pytest.mark.parametrize(("sync", "later"), METHODS)
def test_what_blocks_in_one_client_is_awaited_or_iterated_in_the_other(
    sync: Any, later: Any
) -> None:
    here, there = (inspect.signature(each).return_annotation for each in (sync, later))
    if str(here).startswith("collections.abc.Iterator"):
        assert str(there).startswith("collections.abc.AsyncIterator")
    elif later.__name__ not in {"attempt", "within", "action", "check_used"}:
        assert inspect.iscoroutinefunction(later)


def test_help_shows_what_create_takes_and_returns() -> None:
    client = Client("http://127.0.0.1:1", "obx_x")
    shown = pydoc.plain(pydoc.render_doc(client.inboxes.create))

    assert "create(*, attempt_id: str | None = None, label: str = ''" in shown
    assert "-> oncebox.client.sync.inboxes.Inbox method of" in shown


def test_send_spells_out_every_option_with_its_default() -> None:
    """``key`` of a mail in a batch is only there to be refused with a reason."""
    defaults = {"key": None, "send_at": None, "valid_until": None, "interval": 0}
    for function in (Client.send, AsyncClient.send, send_request):
        taken = inspect.signature(function).parameters
        options = {
            name: each.default for name, each in taken.items() if name in Intent.__struct_fields__
        }
        assert set(options) - {"email"} == set(SendOptions.__annotations__)
        intent = Intent(email=Email(to="ann@example.com"))
        for name in SendOptions.__annotations__:
            assert options[name] == defaults.get(name, getattr(intent, name))


def test_resources_are_created_on_first_use() -> None:
    client = Client("http://127.0.0.1:1", "obx_x")
    assert set(vars(client)) == {"_runner"}

    assert client.sends is client.sends
    assert set(vars(client)) == {"_runner", "sends"}


@pytest.mark.parametrize("path", sync_client.generated(), ids=lambda path: path.name)
def test_sync_client_is_generated_from_the_async_client(path: Any) -> None:
    """If this fails, run `make sync-client`."""
    assert path.read_text() == sync_client.generated()[path]


def test_sync_client_has_no_other_modules() -> None:
    found = set(sync_client.TARGET.glob("*.py"))
    written = {sync_client.TARGET / name for name in sync_client.HAND_WRITTEN}

    assert found == set(sync_client.generated()) | written
