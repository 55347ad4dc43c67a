"""Mail by Resend, and what its webhooks tell: end to end, through the signed door."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
import pytest

from oncebox.db.database import Transaction
from oncebox.errors import StoreUnavailable
from oncebox.ledger.admin import tenants
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries.settlements import default_retry_rules
from oncebox.ledger.sends import evidence, sends, suppressions, transports
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.sends.intent import Intent, SendOrigin
from oncebox.model.sends.send import AnswerStatus, OnUnknown, SendState
from oncebox.model.sends.transports import (
    NewTransport,
    ProviderEvent,
    ProviderEventResult,
    ProviderStatus,
)
from oncebox.testing.provider import ScriptedProvider
from oncebox.testing.provider_protocol import ProviderMail, ProviderWebhook
from oncebox.transports.transport_config import encode_config
from oncebox.workers.deliveries.once import Once
from oncebox.workers.deliveries.send_evidence import EvidenceTargets
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.posthouse import PostHouse, mail, resend, until

SECRET = "whsec_" + "c2VjcmV0" * 4
OTHER_SECRET = "whsec_" + "b3RoZXJz" * 4
SOURCE = "resend"
AT = "/in/abcdefgh12345678"
THEIRS = "/in/theirs9876543210"
#: where the database makes no difference
one_database = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as provider:
        yield provider


def house_at(place: Place, **table: Any) -> PostHouse:
    source = {"scheme": "resend", "public_id": AT[4:], "secrets": "env:RESEND_SECRET", **table}
    return PostHouse(place, sources={SOURCE: source})


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESEND_SECRET", SECRET)


@asynccontextmanager
async def opened(
    house: PostHouse, provider: ScriptedProvider, **given: Any
) -> AsyncIterator[PostHouse]:
    async with house.box:
        await house.add(provider, **{"source": SOURCE, **given})
        yield house


@pytest.fixture
async def house(place: Place, provider: ScriptedProvider) -> AsyncIterator[PostHouse]:
    async with opened(house_at(place), provider) as house:
        yield house


async def knock(house: PostHouse, hook: ProviderWebhook, at: str = AT) -> int:
    """Let a webhook in by the door."""
    transport = httpx2.ASGITransport(app=house.box.asgi())
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.post(at, content=hook.body, headers=hook.headers)
    return answer.status_code


async def tell(
    house: PostHouse, provider: ScriptedProvider, event: str, taken: ProviderMail, **details: Any
) -> None:
    """Tell of a mail, as Resend does."""
    hook = provider.webhook(event, taken, details.pop("secret", SECRET), **details)
    assert await knock(house, hook) == 200


def counted(house: PostHouse, what: str, result: str) -> float:
    return house.metric(f'oncebox_send_evidence_total{{result="{result}",what="{what}"}}')


async def places(house: PostHouse) -> list[str]:
    """Return the sources that a process without handlers claims for what they tell."""
    rules = default_retry_rules(house.box.settings.retry)
    found = EvidenceTargets(
        house.box._make_workers().send_evidence(), list, worker="w", lease=1.0, rules=rules
    )
    return [each.source for each in await found.list_targets()]


async def test_a_mail_goes_by_resend_once_and_its_repeat_is_a_duplicate(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    first = await house.send("order_1", wait=30)
    again = await house.send("order_1", wait=30)

    (taken,) = provider.accepted
    assert (first.status, first.provider_id) == (AnswerStatus.SENT, taken.id)
    assert (again.status, again.message_id) == (AnswerStatus.DUPLICATE, taken.message_id)
    assert taken.tags == {"oncebox": first.id}


async def test_a_webhook_ends_a_doubt(house: PostHouse, provider: ScriptedProvider) -> None:
    provider.script("accept_then_drop")
    told = await house.send(wait=30, on_unknown=OnUnknown.HOLD)
    (taken,) = provider.accepted
    assert told.status is AnswerStatus.UNKNOWN

    await tell(house, provider, "email.sent", taken)

    send = await house.until(told.id, SendState.SENT)
    assert (send.provider_id, send.delivery) == (taken.id, None)
    assert await places(house) == [SOURCE]
    await until(lambda: counted(house, "accepted", "proof") == 1)
    assert len(provider.accepted) == 1


@pytest.mark.parametrize("fault", ["accept_then_drop", "accept_then_500", "500"])
@one_database
async def test_an_ambiguous_provider_error_is_replayed_by_default_and_sends_one_mail(
    house: PostHouse, provider: ScriptedProvider, fault: str
) -> None:
    provider.script(fault)

    told = await house.send(wait=30)

    (taken,) = provider.accepted
    assert (told.status, told.provider_id) == (AnswerStatus.SENT, taken.id)
    assert len({(each.headers["idempotency-key"], each.body) for each in provider.received}) == 1
    assert len(provider.received) == 2


@one_database
async def test_an_ambiguous_provider_error_is_held_where_that_was_chosen(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    provider.script("accept_then_500")

    told = await house.send(wait=30, on_unknown=OnUnknown.HOLD)

    assert (told.status, told.retry_after) == (AnswerStatus.UNKNOWN, None)
    assert len(provider.received) == 1


@pytest.mark.parametrize("fault", ["accept_then_drop", "accept_then_500", "accept_then_garbage"])
@one_database
async def test_a_replay_is_answered_by_the_key_and_sends_nothing_twice(
    house: PostHouse, provider: ScriptedProvider, fault: str
) -> None:
    provider.script(fault, fault)

    told = await house.send(wait=30, on_unknown=OnUnknown.REPLAY)

    (taken,) = provider.accepted
    assert (told.status, told.provider_id) == (AnswerStatus.SENT, taken.id)
    assert len({each.body for each in provider.received}) == 1
    assert len(provider.received) == 3


@pytest.mark.parametrize("choice", [OnUnknown.REPLAY, OnUnknown.RESEND])
@one_database
async def test_a_key_that_said_something_else_waits_for_a_person(
    house: PostHouse, provider: ScriptedProvider, choice: OnUnknown
) -> None:
    provider.script("409_mismatch")

    told = await house.send(wait=30, on_unknown=choice)

    send = await house.get(told.id)
    assert (told.status, send.code, send.repeat_mode) == (
        AnswerStatus.UNKNOWN,
        "key_mismatch",
        None,
    )
    assert (len(provider.received), provider.accepted) == (1, [])


@one_database
async def test_a_revoked_key_closes_the_way_and_burns_nothing(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    provider.always("reject(403)")
    told = await house.send()

    await house.rests()

    assert (await house.get(told.id)).state is SendState.PENDING
    assert provider.accepted == []


async def test_what_became_of_a_mail_is_told_and_who_bounced_gets_no_more(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    told = await house.send(wait=30)
    (taken,) = provider.accepted
    await tell(house, provider, "email.bounced", taken, bounce={"type": "Permanent"})
    await tell(house, provider, "email.delivered", taken)

    await house.holds(told.id, lambda send: send.delivery is ProviderStatus.BOUNCED)
    await until(
        lambda: counted(house, "delivered", "repeat") + counted(house, "delivered", "news") == 1
    )
    assert (await house.get(told.id)).delivery is ProviderStatus.BOUNCED
    (listed,) = await house.rooms.database.read(suppressions.page, TENANT)
    assert (listed.reason, listed.send_id) == ("hard_bounce", told.id)
    assert (
        house.rooms.send_cipher.decrypt_address(TENANT, listed.fingerprint, listed.address)
        == mail().to[0]
    )
    assert (await house.send(wait=30)).status is AnswerStatus.SUPPRESSED
    assert len(provider.accepted) == 1


@one_database
async def test_the_same_webhook_again_changes_nothing(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    told = await house.send(wait=30)
    (taken,) = provider.accepted
    hook = provider.webhook("email.complained", taken, SECRET)
    for _ in range(3):
        assert await knock(house, hook) == 200

    await house.holds(told.id, lambda send: send.delivery is ProviderStatus.COMPLAINED)
    await tell(house, provider, "email.opened", taken)
    await until(lambda: counted(house, "opened", "repeat") == 1)
    assert counted(house, "complained", "news") == 1
    assert counted(house, "complained", "repeat") == 0


@one_database
async def test_a_forged_webhook_is_not_let_in(house: PostHouse, provider: ScriptedProvider) -> None:
    provider.script("accept_then_drop")
    told = await house.send(wait=30, on_unknown=OnUnknown.HOLD)
    (taken,) = provider.accepted

    assert await knock(house, provider.webhook("email.sent", taken, OTHER_SECRET)) == 401
    assert (await house.get(told.id)).state is SendState.UNKNOWN


@one_database
async def test_an_unsigned_source_proves_nothing(place: Place, provider: ScriptedProvider) -> None:
    house = house_at(place, scheme="none", allow_unsigned=True, secrets=[])
    handled: list[str] = []

    @house.box.on(SOURCE)
    async def own(delivery: Delivery, once: Once) -> None:
        handled.append(delivery.id)

    async with opened(house, provider):
        provider.script("accept_then_drop")
        told = await house.send(wait=30, on_unknown=OnUnknown.HOLD)
        (taken,) = provider.accepted
        await tell(house, provider, "email.sent", taken)
        await until(lambda: len(handled) == 1)

        assert await house.box._make_workers().send_evidence().sources() == {}
        assert (await house.get(told.id)).state is SendState.UNKNOWN


@one_database
async def test_what_a_program_puts_in_itself_proves_nothing(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    provider.script("accept_then_drop")
    told = await house.send(wait=30, on_unknown=OnUnknown.HOLD)
    (taken,) = provider.accepted
    body = provider.webhook("email.sent", taken, SECRET).body
    await house.box.accept(SOURCE, key="k", body=body)
    await tell(house, provider, "email.opened", taken, email_id="nobody", tags={})

    await until(lambda: counted(house, "opened", "unknown") == 1)
    assert (await house.get(told.id)).state is SendState.UNKNOWN


@one_database
async def test_what_is_about_other_mail_is_settled_and_changes_nothing(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    told = await house.send(wait=30)
    (taken,) = provider.accepted
    await tell(house, provider, "email.bounced", taken, email_id="other", tags={"oncebox": told.id})
    await tell(house, provider, "contact.created", taken)
    await tell(house, provider, "email.delivered", taken)

    await house.holds(told.id, lambda send: send.delivery is ProviderStatus.DELIVERED)
    await until(lambda: counted(house, "soft_bounced", "unknown") == 1)


async def test_the_ledger_hears_before_the_users_handler_runs(
    place: Place, provider: ScriptedProvider
) -> None:
    house = house_at(place)
    seen: list[tuple[str, SendState]] = []

    @house.box.on(SOURCE, "email.delivered")
    async def own(delivery: Delivery, once: Once) -> None:
        id_ = delivery.json["data"]["tags"]["oncebox"]
        seen.append((delivery.type, (await house.get(id_)).state))

    async with opened(house, provider):
        provider.script("accept_then_drop")
        told = await house.send(wait=30, on_unknown=OnUnknown.HOLD)
        (taken,) = provider.accepted
        await tell(house, provider, "email.delivered", taken)
        await until(lambda: bool(seen))

        assert await places(house) == []
        assert seen == [("email.delivered", SendState.SENT)]
        await tell(house, provider, "email.clicked", taken)  # a type that nobody handles
        await house.holds(told.id, lambda send: send.delivery is ProviderStatus.CLICKED)


@one_database
async def test_a_database_that_is_away_costs_no_try(
    place: Place, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = house_at(place)
    tries: list[int] = []

    @house.box.on(SOURCE)
    async def own(delivery: Delivery, once: Once) -> None:
        tries.append(delivery.tries)

    async with opened(house, provider):
        told = await house.send(wait=30)
        (taken,) = provider.accepted
        away, record = [1, 2, 3], evidence.record_evidence

        def stumbling(
            tx: Transaction, events: Sequence[ProviderEvent], now: int
        ) -> list[ProviderEventResult]:
            if away:
                away.pop()
                raise StoreUnavailable
            return record(tx, events, now)

        monkeypatch.setattr(evidence, "record_evidence", stumbling)
        await tell(house, provider, "email.delivered", taken)
        await until(lambda: bool(tries))

        assert (tries, away) == ([1], [])
        assert (await house.get(told.id)).delivery is ProviderStatus.DELIVERED


@one_database
async def test_no_other_process_settles_what_a_program_has_a_handler_for(
    place: Place, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, service = house_at(place), house_at(place)

    @program.box.on(SOURCE)
    async def own(delivery: Delivery, once: Once) -> None:
        """Handle what Resend tells."""

    async with opened(program, provider):
        first = await program.send("a", wait=30)
    (taken,) = provider.accepted
    async with service.box:  # the program is down, and its deliveries wait for it
        assert await places(service) == []
        second = await service.send("b", wait=30)
        await tell(service, provider, "email.delivered", taken)
        assert await places(service) == []
        monkeypatch.setattr("oncebox.workers.deliveries.send_evidence._HANDLERS_EXPIRE_AFTER", -1)
        assert await places(service) == [SOURCE]

    assert {first.status, second.status} == {AnswerStatus.SENT}


@one_database
async def test_every_tenant_is_heard_about_its_own_mail_and_no_other(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    rooms = house.rooms
    await rooms.database.write(tenants.create, "rival", house.deed())

    def deed() -> AuditEntry:
        return msgspec.structs.replace(house.deed(), tenant="rival")

    await rooms.database.write(
        rooms.source_service.add, "theirs", {"scheme": "resend"}, deed(),
        public_id=THEIRS[4:], texts=[OTHER_SECRET],
    )  # fmt: skip
    await rooms.sources.refresh()
    sealed = rooms.send_cipher.encrypt_field(
        "config", "rival", "way", encode_config(resend(provider, source="theirs"))
    )
    new = NewTransport(name="way", kind="resend", config=sealed)
    await rooms.database.write(transports.add, new, deed())
    provider.script("accept_then_drop", "accept_then_drop")
    ours = await house.send(wait=30, on_unknown=OnUnknown.HOLD)
    intent = Intent(email=mail(), event_type="x", entity_id="1", on_unknown=OnUnknown.HOLD)
    theirs = (await rooms.outbox.send(SendOrigin(tenant="rival"), intent)).send
    await until(lambda: len(provider.accepted) == 2)
    by_tag = {each.tags["oncebox"]: each for each in provider.accepted}

    for at, secret in ((AT, SECRET), (THEIRS, OTHER_SECRET)):
        for id_ in (theirs.id, ours.id) if at == AT else (ours.id,):
            hook = provider.webhook("email.opened", by_tag[id_], secret)
            assert await knock(house, hook, at) == 200
    await until(lambda: counted(house, "opened", "unknown") == 2)
    stands = await rooms.database.read(sends.get, "rival", theirs.id)
    assert (stands.state, stands.delivery) == (SendState.UNKNOWN, None)
    hook = provider.webhook("email.clicked", by_tag[theirs.id], OTHER_SECRET)
    assert await knock(house, hook, THEIRS) == 200
    await until(lambda: counted(house, "clicked", "proof") == 1)

    stands = await rooms.database.read(sends.get, "rival", theirs.id)
    assert (stands.state, stands.delivery) == (SendState.SENT, ProviderStatus.CLICKED)
    assert (await house.get(ours.id)).delivery is ProviderStatus.OPENED


@one_database
async def test_a_transport_that_names_no_source_leaves_its_webhooks_to_others(
    place: Place, provider: ScriptedProvider
) -> None:
    async with opened(house_at(place), provider, source="") as house:
        provider.script("accept_then_drop")
        told = await house.send(wait=30, on_unknown=OnUnknown.HOLD)
        (taken,) = provider.accepted
        await tell(house, provider, "email.sent", taken)

        assert await places(house) == []
        assert (await house.get(told.id)).state is SendState.UNKNOWN


@one_database
async def test_a_source_that_is_pulled_is_left_to_those_who_pull(
    place: Place, provider: ScriptedProvider
) -> None:
    async with opened(house_at(place, mode="pull"), provider) as house:
        told = await house.send(wait=30)
        (taken,) = provider.accepted
        await tell(house, provider, "email.delivered", taken)

        assert await places(house) == []
        assert (await house.get(told.id)).delivery is None


@one_database
async def test_a_change_of_the_transport_is_seen(
    place: Place, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncebox.workers.deliveries.send_evidence._REFRESH_EVERY", 0.0)
    async with opened(house_at(place), provider, source="") as house:
        told = await house.send(wait=30)
        (taken,) = provider.accepted
        await tell(house, provider, "email.delivered", taken)

        await house.change("relay", resend(provider, source=SOURCE))

        await house.holds(told.id, lambda send: send.delivery is ProviderStatus.DELIVERED)
