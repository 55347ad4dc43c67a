"""The client's rooms, against a real service on both databases."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncebox.client import submission
from oncebox.client.sync import Client
from oncebox.client.sync.mailboxes import Mailboxes
from oncebox.errors import ConfigInvalid, KeyInvalid, NotFound, SourceUnknown, StateConflict
from oncebox.errors.http import FieldsInvalid, Forbidden, Unauthenticated
from oncebox.model.mailboxes.mailbox_fields import MailboxFields
from oncebox.schemas.sources import SourceChange, SourceFields
from tests.client.conftest import Speaker
from tests.support.lossy import lossy
from tests.support.running import Running


@pytest.fixture
def client(service: Running) -> Iterator[Client]:
    """A client with an admin key."""
    with Client(service.url, service.key) as client:
        yield client


def test_the_credentials_that_a_service_writes_are_found(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ONCEBOX_URL", "ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONCEBOX_DATA_DIR", str(service.folder))
    with Client() as client:
        mine = client.keys.mine()

    assert mine.tenant == "default"
    assert mine.key.scopes == ["admin"]


def test_a_source_is_added_looked_at_changed_and_removed(
    service: Running, speaker: Speaker
) -> None:
    def ask(question: Callable[[Any], Any]) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    made = ask(
        lambda c: c.sources.add(
            "orders/eu", "none", allow_unsigned=True, mode="pull", gap_wait=2.5, tries=3
        )
    )
    found = ask(lambda c: c.sources.get("orders/eu"))
    changed = ask(lambda c: c.sources.change("orders/eu", tries=None, rate=10))
    paused = ask(lambda c: c.sources.pause("orders/eu", why="moving house"))
    resumed = ask(lambda c: c.sources.resume("orders/eu"))
    names = [each.name for each in ask(lambda c: c.sources.list())]
    gone = ask(lambda c: c.sources.remove("orders/eu"))

    assert made.path == f"/in/{made.public_id}"
    assert (found.mode, found.gap_wait, found.tries) == ("pull", 2.5, 3)
    assert (changed.tries, changed.rate) == (None, 10)
    assert (paused.state, resumed.state) == ("paused", "ready")
    assert names == ["orders/eu"]
    assert gone is None
    with pytest.raises(NotFound):
        ask(lambda c: c.sources.get("orders/eu"))


def test_secrets_come_and_go_and_are_never_shown(client: Client) -> None:
    client.sources.add("gh", "github", secrets=["first"])
    added = client.sources.add_secret("gh", "second")
    both = client.sources.get("gh").secrets
    left = client.sources.retire_secret("gh", added.id).secrets

    assert len(both) == 2
    assert [each.retired_at is None for each in left].count(True) == 1
    assert "second" not in repr(both)


def test_a_mailbox_is_added_looked_at_changed_and_removed(
    service: Running, speaker: Speaker
) -> None:
    def ask(question: Callable[[Any], Any]) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    url = "imaps://ann@127.0.0.1:1"
    made = ask(lambda c: c.mailboxes.add("team/eu", url, password="s3cret", poll_every=90))
    found = ask(lambda c: c.mailboxes.get("team/eu"))
    changed = ask(
        lambda c: c.mailboxes.change("team/eu", url, password="s3cret", folders=["A", "B"])
    )
    tested = ask(lambda c: c.mailboxes.test("team/eu"))
    paused = ask(lambda c: c.mailboxes.pause("team/eu", why="moving house"))
    resynced = ask(lambda c: c.mailboxes.resync("team/eu"))
    resumed = ask(lambda c: c.mailboxes.resume("team/eu"))
    names = [each.name for each in ask(lambda c: c.mailboxes.list())]
    gone = ask(lambda c: c.mailboxes.remove("team/eu"))

    assert (made.id, made.poll_every) == (found.id, 90)
    assert (changed.id, changed.poll_every) == (made.id, 60)
    assert (tested.works, tested.code) == (False, "connect_failed")
    assert (paused.paused, resumed.paused) == ("operator", None)
    assert resynced.cursor_version == made.cursor_version + 1
    assert names == ["team/eu"]
    assert gone is None
    with pytest.raises(NotFound):
        ask(lambda c: c.mailboxes.get("team/eu"))
    with pytest.raises(ConfigInvalid):
        ask(lambda c: c.mailboxes.add("team/eu", "http://127.0.0.1"))


def test_every_field_of_a_mailbox_can_be_given_by_the_client() -> None:
    for function in (Mailboxes.add, Mailboxes.change):
        taken = set(inspect.signature(function).parameters)
        assert set(MailboxFields.__struct_fields__) <= taken


def test_keys_are_made_used_and_revoked(service: Running, client: Client) -> None:
    made = client.keys.make(["operator"], name="pager", expires_in=3600)
    with Client(service.url, made.key) as pager:
        assert pager.keys.mine().key.name == "pager"
        with pytest.raises(Forbidden) as refused:
            pager.keys.make(["admin"])
    revoked = client.keys.revoke(made.id)
    again = client.keys.revoke(made.id)
    with Client(service.url, made.key) as pager, pytest.raises(Unauthenticated):
        pager.keys.mine()

    assert refused.value.request_id
    assert revoked.state == again.state == "revoked"
    assert made.key not in repr(made)
    assert {each.id for each in client.keys.list()} >= {made.id}


def test_a_tenant_is_made_with_a_key_that_opens_only_its_own_rooms(
    service: Running, client: Client
) -> None:
    client.sources.add("ours", "none", allow_unsigned=True)
    made = client.tenants.make("acme")
    with Client(service.url, made.key.key) as acme:
        assert list(acme.sources.list()) == []
        with pytest.raises(NotFound):
            acme.sources.get("ours")
        with pytest.raises((NotFound, Forbidden)):
            acme.tenants.make("third")

    assert [each.name for each in client.tenants.list()] == ["acme", "default"]


def test_a_creation_repeated_by_its_key_is_made_once(client: Client) -> None:
    first = client.keys.make(["agent"], idempotency_key="deploy-7")
    second = client.keys.make(["agent"], idempotency_key="deploy-7")

    assert first == second


def test_deliveries_are_listed_in_pages_newest_first(service: Running, speaker: Speaker) -> None:
    ids = [service.accept("shop", f"k{number}").id for number in range(7)]

    listed = speaker.ask(service.url, lambda c: c.deliveries.list(source="shop"), key=service.key)
    page = speaker.ask(service.url, lambda c: c.deliveries.page(limit=3), key=service.key)
    rest = speaker.ask(
        service.url,
        lambda c: c.deliveries.page(limit=200, cursor=page.next_cursor),
        key=service.key,
    )

    assert [each.id for each in listed] == ids[::-1]
    assert [each.id for each in (*page.data, *rest.data)] == ids[::-1]


def test_a_delivery_is_inspected_held_released_and_replayed(
    service: Running, client: Client
) -> None:
    client.sources.add("jobs", "none", allow_unsigned=True, mode="pull")
    id_ = service.accept("jobs", "k1", body=b"\x00raw", headers=[("X-A", "b")]).id
    held = client.deliveries.hold(id_, why="wait")
    with pytest.raises(StateConflict):
        client.deliveries.replay(id_, why="too early")
    released = client.deliveries.release(id_, why="go on")
    (work,) = client.deliveries.claim("jobs").deliveries
    client.deliveries.complete(work.id, work.fence)
    rehearsed = client.deliveries.replay(id_, why="look", dry_run=True)
    replayed = client.deliveries.replay(id_, why="again")
    found = client.deliveries.inspect(id_, payload=True)

    assert (held.state, released.delivery.state) == ("held", "received")
    assert (rehearsed.dry_run, replayed.dry_run) == (True, False)
    assert found.delivery.state == "received"
    assert found.payload is not None
    assert (found.payload.headers, found.payload.body) == ([("X-A", "b")], b"\x00raw")
    assert [each.action for each in found.audit] == ["hold", "release", "replay"]
    assert client.deliveries.inspect(id_).payload is None


def test_a_held_delivery_is_dropped_and_may_be_replayed(service: Running, client: Client) -> None:
    client.sources.add("jobs", "none", allow_unsigned=True, mode="pull")
    id_ = service.accept("jobs", "k1").id
    with pytest.raises(StateConflict):
        client.deliveries.drop(id_, why="too early")
    client.deliveries.hold(id_, why="wait")
    rehearsed = client.deliveries.drop(id_, why="look", dry_run=True)
    dropped = client.deliveries.drop(id_, why="a test")
    none = client.deliveries.claim("jobs").deliveries
    client.deliveries.replay(id_, why="no test")
    (work,) = client.deliveries.claim("jobs").deliveries

    assert (rehearsed.dry_run, dropped.dry_run) == (True, False)
    assert (dropped.delivery.state, dropped.delivery.outcome) == ("done", "dropped")
    assert (none, work.id) == ([], id_)


def test_an_empty_quarantine_is_empty_and_forgetting_nothing_is_not_found(client: Client) -> None:
    assert list(client.quarantine.list()) == []
    for verb in (client.quarantine.get, client.quarantine.retry, client.quarantine.forget):
        with pytest.raises(NotFound):
            verb("rej_nothing")


def test_what_the_service_cannot_take_is_pointed_to(client: Client) -> None:
    with pytest.raises(FieldsInvalid) as caught:
        client.keys.make(["emperor"])

    assert caught.value.pointer == "/scopes/0"


def test_the_fields_of_a_source_are_those_of_the_wire() -> None:
    added = set(inspect.signature(Client("http://x", "obx_x").sources.add).parameters)
    changed = set(inspect.signature(Client("http://x", "obx_x").sources.change).parameters)

    assert set(SourceFields.__struct_fields__) <= added
    assert set(SourceChange.__struct_fields__) == changed - {"name"}


def test_events_are_submitted_once_by_key_and_told_what_they_are(
    service: Running, speaker: Speaker
) -> None:
    def ask(question: Callable[[Any], Any]) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    ask(lambda c: c.sources.add("orders", "standard-webhooks"))
    first = ask(lambda c: c.deliveries.accept("orders", key="m-1", body=b"\x00\xff", type="paid"))
    again = ask(lambda c: c.deliveries.accept("orders", key="m-1", body=b"\x00\xff", type="paid"))
    other = ask(lambda c: c.deliveries.accept("orders", key="m-1", body="other"))
    kept = ask(lambda c: c.deliveries.inspect(first.id, payload=True))

    assert (first.arrival, first.state) == ("new", "received")
    assert (again.id, again.arrival, again.state) == (first.id, "duplicate", "received")
    assert (other.arrival, other.state) == ("conflict", "held")
    assert (kept.payload.body, kept.delivery.type) == (b"\x00\xff", "paid")
    with pytest.raises(SourceUnknown, match="oncebox source add"):
        ask(lambda c: c.deliveries.accept("nowhere", key="m-1"))
    with pytest.raises(KeyInvalid):
        ask(lambda c: c.deliveries.accept("orders", key=""))


def test_a_batch_of_any_length_is_submitted_in_order_and_answered_item_by_item(
    service: Running, speaker: Speaker
) -> None:
    def ask(question: Callable[[Any], Any]) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    ask(lambda c: c.sources.add("orders", "standard-webhooks"))
    events = [submission("orders", key=f"m-{n}", body="x" * 990) for n in range(250)]
    events[7] = submission("orders", key="m-3", body="x" * 990)
    events[201] = submission("nowhere", key="m-201", body="x")
    answers = ask(lambda c: c.deliveries.accept_batch(events))
    stored = [each.id for each in ask(lambda c: c.deliveries.list(source="orders"))]

    assert len(answers) == 250
    assert answers[201].error.code == "source_unknown"
    assert (answers[7].arrival, answers[7].id) == ("duplicate", answers[3].id)
    assert [each.arrival for each in answers].count("new") == 248
    assert stored[::-1] == [answers[n].id for n in range(250) if n not in {7, 201}]
    assert ask(lambda c: c.deliveries.accept_batch([])) == []


def test_a_lost_answer_to_a_submission_is_asked_for_again_and_stores_nothing_twice(
    service: Running, client: Client, speaker: Speaker
) -> None:
    client.sources.add("orders", "standard-webhooks")
    with lossy(service.url, lambda number, _heard: number < 1) as proxy:
        answer = speaker.ask(
            proxy.url, lambda c: c.deliveries.accept("orders", key="m-1"), key=service.key
        )
    events = [submission("orders", key=f"m-{number}") for number in range(3)]
    with lossy(service.url, lambda number, _heard: number < 1) as proxy:
        batch = speaker.ask(proxy.url, lambda c: c.deliveries.accept_batch(events), key=service.key)

    assert (answer.arrival, [each.arrival for each in batch]) == ("duplicate", ["duplicate"] * 3)
    assert sorted(each.key for each in client.deliveries.list()) == ["m-0", "m-1", "m-2"]
