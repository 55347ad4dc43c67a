"""Mail by Resend, and what its webhooks tell: end to end, through the signed door."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from oncebox import Delivery, Once
from oncebox.ledger.deliveries.rules import by_default
from oncebox.ledger.sends import suppressions
from oncebox.model.evidence import Told
from oncebox.model.send import Answer, OnUnknown, SendState
from oncebox.testing.personalities.personality import Hook, Taken
from oncebox.testing.provider import ScriptedProvider
from oncebox.worker.send_evidence import Unhandled
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.posthouse import PostHouse, mail, resend, until

SECRET = "whsec_" + "c2VjcmV0" * 4
OTHER_SECRET = "whsec_" + "b3RoZXJz" * 4
SOURCE = "resend"
AT = "/in/abcdefgh12345678"
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


async def knock(house: PostHouse, hook: Hook) -> int:
    """Let a webhook in by the door."""
    transport = httpx2.ASGITransport(app=house.box.asgi())
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.post(AT, content=hook.body, headers=hook.headers)
    return answer.status_code


async def tell(
    house: PostHouse, provider: ScriptedProvider, event: str, taken: Taken, **details: Any
) -> None:
    """Tell of a mail, as Resend does."""
    hook = provider.hook(event, taken, details.pop("secret", SECRET), **details)
    assert await knock(house, hook) == 200


def counted(house: PostHouse, what: str, result: str) -> float:
    return house.metric(f'oncebox_send_evidence_total{{result="{result}",what="{what}"}}')


async def places(house: PostHouse) -> list[str]:
    """Return the sources that are claimed for what they tell."""
    box = house.box
    rules = by_default(box.settings.retry)
    own = box.handlers.sources
    found = Unhandled(
        box._hearing(), lambda _, source: source in own, worker="w", lease=1.0, rules=rules
    )
    return [each.source for each in await found.places()]


async def test_a_mail_goes_by_resend_once_and_its_repeat_is_a_duplicate(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    first = await house.send("order_1", wait=30)
    again = await house.send("order_1", wait=30)

    (taken,) = provider.accepted
    assert (first.status, first.provider_id) == (Answer.SENT, taken.id)
    assert (again.status, again.message_id) == (Answer.DUPLICATE, taken.message_id)
    assert taken.tags == {"oncebox": first.id}


async def test_a_webhook_ends_a_doubt(house: PostHouse, provider: ScriptedProvider) -> None:
    provider.script("accept_then_drop")
    told = await house.send(wait=30)
    (taken,) = provider.accepted
    assert told.status is Answer.UNKNOWN

    await tell(house, provider, "email.sent", taken)

    send = await house.until(told.id, SendState.SENT)
    assert (send.provider_id, send.delivery) == (taken.id, None)
    assert await places(house) == [SOURCE]
    await until(lambda: counted(house, "accepted", "proof") == 1)
    assert len(provider.accepted) == 1


@pytest.mark.parametrize("fault", ["accept_then_drop", "accept_then_500", "accept_then_garbage"])
@one_database
async def test_a_replay_is_answered_by_the_key_and_sends_nothing_twice(
    house: PostHouse, provider: ScriptedProvider, fault: str
) -> None:
    provider.script(fault, fault)

    told = await house.send(wait=30, on_unknown=OnUnknown.REPLAY)

    (taken,) = provider.accepted
    assert (told.status, told.provider_id) == (Answer.SENT, taken.id)
    assert len({each.body for each in provider.received}) == 1
    assert len(provider.received) == 3


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

    await house.holds(told.id, lambda send: send.delivery is Told.BOUNCED)
    await until(
        lambda: counted(house, "delivered", "repeat") + counted(house, "delivered", "news") == 1
    )
    assert (await house.get(told.id)).delivery is Told.BOUNCED
    (listed,) = await house.rooms.database.read(suppressions.page, TENANT)
    assert (listed.reason, listed.send_id) == ("hard_bounce", told.id)
    assert house.rooms.sendbox.open_address(TENANT, listed.mark, listed.address) == mail().to[0]
    assert (await house.send(wait=30)).status is Answer.SUPPRESSED
    assert len(provider.accepted) == 1


@one_database
async def test_the_same_webhook_again_changes_nothing(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    told = await house.send(wait=30)
    (taken,) = provider.accepted
    hook = provider.hook("email.complained", taken, SECRET)
    for _ in range(3):
        assert await knock(house, hook) == 200

    await house.holds(told.id, lambda send: send.delivery is Told.COMPLAINED)
    await tell(house, provider, "email.opened", taken)
    await until(lambda: counted(house, "opened", "repeat") == 1)
    assert counted(house, "complained", "news") == 1
    assert counted(house, "complained", "repeat") == 0


@one_database
async def test_a_forged_webhook_is_not_let_in(house: PostHouse, provider: ScriptedProvider) -> None:
    provider.script("accept_then_drop")
    told = await house.send(wait=30)
    (taken,) = provider.accepted

    assert await knock(house, provider.hook("email.sent", taken, OTHER_SECRET)) == 401
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
        told = await house.send(wait=30)
        (taken,) = provider.accepted
        await tell(house, provider, "email.sent", taken)
        await until(lambda: len(handled) == 1)

        assert await house.box._hearing().sources() == {}
        assert (await house.get(told.id)).state is SendState.UNKNOWN


@one_database
async def test_what_a_program_puts_in_itself_proves_nothing(
    house: PostHouse, provider: ScriptedProvider
) -> None:
    provider.script("accept_then_drop")
    told = await house.send(wait=30)
    (taken,) = provider.accepted
    body = provider.hook("email.sent", taken, SECRET).body
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

    await house.holds(told.id, lambda send: send.delivery is Told.DELIVERED)
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
        told = await house.send(wait=30)
        (taken,) = provider.accepted
        await tell(house, provider, "email.delivered", taken)
        await until(lambda: bool(seen))

        assert await places(house) == []
        assert seen == [("email.delivered", SendState.SENT)]
        await tell(house, provider, "email.clicked", taken)  # a type that nobody handles
        await house.holds(told.id, lambda send: send.delivery is Told.CLICKED)


@one_database
async def test_a_transport_that_names_no_source_leaves_its_webhooks_to_others(
    place: Place, provider: ScriptedProvider
) -> None:
    async with opened(house_at(place), provider, source="") as house:
        provider.script("accept_then_drop")
        told = await house.send(wait=30)
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
    monkeypatch.setattr("oncebox.worker.send_evidence._LOOK_EVERY", 0.0)
    async with opened(house_at(place), provider, source="") as house:
        told = await house.send(wait=30)
        (taken,) = provider.accepted
        await tell(house, provider, "email.delivered", taken)

        await house.change("relay", resend(provider, source=SOURCE))

        await house.holds(told.id, lambda send: send.delivery is Told.DELIVERED)
