"""The worker for sends: one mail each by real SMTP, and an honest word on what is in doubt."""

import base64
from collections.abc import AsyncIterator

import dkim
import pytest

from oncebox.ledger.sends import suppressions, transports
from oncebox.mail.auth.dkim_sign import read_signing_key
from oncebox.model.sends.send import AnswerStatus, Send, SendState
from oncebox.model.sends.transports import (
    NewTransport,
    NotSent,
    SendAccepted,
    SendPhase,
    TransportRate,
)
from oncebox.testing.provider import ScriptedProvider
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports.dkim_signing import DkimKey
from tests.mail.signing import dkim_dns_record
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.posthouse import HeldWay, PostHouse, mail, open_house, smtp, until

#: where the database makes no difference
one_database = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
#: a failover group
MAIN = "main"
_SEED = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
async def server() -> AsyncIterator[ScriptedSmtp]:
    async with ScriptedSmtp() as server:
        yield server


@pytest.fixture
async def house(place: Place, server: ScriptedSmtp) -> AsyncIterator[PostHouse]:
    async with open_house(place) as house:
        await house.add(server)
        yield house


async def test_one_mail_goes_through_and_its_repeat_is_a_duplicate(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    first = await house.send("order_1", wait=30)
    again = await house.send("order_1", wait=30)

    assert (first.status, first.created) == (AnswerStatus.SENT, True)
    assert (again.status, again.created) == (AnswerStatus.DUPLICATE, False)
    assert again.message_id == first.message_id
    assert server.count(first.message_id) == len(server.accepted) == 1
    assert house.metric('oncebox_sends_total{status="sent"}') == 1


@one_database
async def test_without_a_transport_mail_is_logged_and_not_sent(place: Place) -> None:
    async with open_house(place) as house:
        told = await house.send(wait=30)
    assert (told.status, told.transport) == (AnswerStatus.LOGGED, "log")


@one_database
@pytest.mark.parametrize("step", ["connect", "hello", "mail", "rcpt", "data", "dot"])
async def test_a_deferred_mail_is_retried_and_accepted_once(
    house: PostHouse, server: ScriptedSmtp, step: str
) -> None:
    server.script(f"451@{step}" if step != "connect" else "421@connect", f"451@{step}")
    told = await house.send(wait=30)

    assert told.status is AnswerStatus.SENT
    assert server.count(told.message_id) == 1
    outcomes = [each.outcome for each in await house.tries(told.id)]
    assert outcomes == ["not_sent", "not_sent", "accepted"]


@one_database
@pytest.mark.parametrize(
    ("fault", "code"), [("550@rcpt", "recipient_refused"), ("554@dot", "message_refused")]
)
async def test_what_is_rejected_has_failed_and_is_not_tried_again(
    house: PostHouse, server: ScriptedSmtp, fault: str, code: str
) -> None:
    server.script(fault)
    told = await house.send(wait=30)

    assert (told.status, told.code) == (AnswerStatus.FAILED, code)
    assert len(await house.tries(told.id)) == 1
    assert not server.accepted


@one_database
async def test_what_is_never_taken_fails_after_its_tries(
    place: Place, server: ScriptedSmtp
) -> None:
    server.always("450@rcpt")
    async with open_house(place, tries=3) as house:
        await house.add(server)
        told = await house.send(wait=30)

        assert (told.status, told.reply) == (AnswerStatus.FAILED, 450)
        assert len(await house.tries(told.id)) == 3


@one_database
@pytest.mark.parametrize("fault", ["accept_then_drop", "accept_then_hang_up", "drop@dot"])
async def test_a_lost_answer_is_unknown_and_sends_no_second_mail(
    house: PostHouse, server: ScriptedSmtp, fault: str
) -> None:
    server.script(fault)
    told = await house.send("order_1", wait=30)
    again = await house.send("order_1", wait=0.1)
    other = await house.send(wait=30)

    assert (told.status, told.retry_after) == (AnswerStatus.UNKNOWN, None)
    assert again.status is AnswerStatus.UNKNOWN
    assert other.status is AnswerStatus.SENT
    assert server.count(told.message_id) == int(fault.startswith("accept"))
    await until(lambda: house.metric('oncebox_sends_total{status="unknown"}') == 1)


async def test_a_lost_answer_is_repeated_where_that_was_chosen(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    server.script("accept_then_drop")
    told = await house.send(on_unknown="resend", wait=30)

    assert told.status is AnswerStatus.SENT
    first, second = server.accepted
    assert first.message == second.message


@one_database
async def test_replay_is_not_made_where_keys_are_not_remembered(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    server.script("accept_then_drop")
    told = await house.send(on_unknown="replay", wait=30)

    assert told.status is AnswerStatus.UNKNOWN
    assert server.count(told.message_id) == 1


async def test_a_refused_login_rests_the_transport_and_costs_no_mail_a_try(place: Place) -> None:
    async with (
        ScriptedSmtp(users={"ann": "right"}) as server,
        open_house(place, tries=1) as house,
    ):
        await house.add(server, username="ann", password="wrong")
        told = [await house.send() for _ in range(5)]
        await house.holds(told[0].id, lambda send: send.code == "login_refused")
        for each in told:
            await house.until(each.id, SendState.PENDING)

        assert (await house.way()).rests_until is not None
        assert server.connections <= len(told)
        found = [await house.get(each.id) for each in told]
        assert {each.state for each in found} == {SendState.PENDING}
        assert {each.tries for each in found} == {0}
        # Who mends the login lets all of them go.
        right = smtp(server, username="ann", password="right")
        await house.change("relay", right)
        for each in told:
            await house.until(each.id, SendState.SENT)
    assert len(server.accepted) == 5


@one_database
async def test_a_transport_that_cannot_be_read_costs_no_mail(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    sealed_elsewhere = house.rooms.send_cipher.encrypt_field("config", "other", "relay", b"{}")

    wrong = NewTransport(name="relay", kind="smtp", config=sealed_elsewhere)
    await house.rooms.database.write(transports.change, wrong, house.deed())
    told = await house.send()
    found = await house.holds(told.id, lambda send: send.code is not None)

    assert (found.state, found.code, found.tries) == (SendState.PENDING, "transport_invalid", 0)
    await house.change("relay", smtp(server))
    await house.until(told.id, SendState.SENT)


@one_database
async def test_a_transport_that_lost_its_configuration_is_not_taken_for_the_log(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    empty = NewTransport(name="relay", kind="smtp")
    await house.rooms.database.write(transports.change, empty, house.deed())
    told = await house.send()
    found = await house.holds(told.id, lambda send: send.code is not None)

    assert (found.state, found.code) == (SendState.PENDING, "transport_invalid")
    assert not server.accepted


async def test_a_lease_is_kept_while_the_answer_to_the_dot_takes_long(
    place: Place, server: ScriptedSmtp
) -> None:
    async with open_house(place, lease=1.0) as house:
        await house.add(server)
        way = HeldWay()
        house.goes_by(way)
        told = await house.send()
        await way.taken.wait()
        began = (await house.get(told.id)).due_at or 0
        kept = await house.holds(
            told.id, lambda send: send.state is not SendState.SENDING or _due(send) > began + 1_000
        )
        way.answer.set_result(SendAccepted())

        assert kept.state is SendState.SENDING
        await house.until(told.id, SendState.SENT)
        assert way.count == 1


def _due(send: Send) -> int:
    return send.due_at or 0


async def test_a_late_yes_of_a_worker_that_lost_its_lease_still_counts(
    house: PostHouse,
) -> None:
    way = HeldWay()
    house.goes_by(way)
    told = await house.send()
    await way.taken.wait()
    await house.lose_lease()
    await house.until(told.id, SendState.UNKNOWN)
    way.answer.set_result(SendAccepted())
    found = await house.until(told.id, SendState.SENT)

    assert found.unknown_since is None
    assert [each.outcome for each in await house.tries(told.id)] == ["accepted"]
    assert way.count == 1


async def test_a_late_no_of_a_worker_that_lost_its_lease_changes_nothing(
    house: PostHouse,
) -> None:
    way = HeldWay()
    house.goes_by(way)
    told = await house.send()
    await way.taken.wait()
    await house.lose_lease()
    await house.until(told.id, SendState.UNKNOWN)
    way.answer.set_result(NotSent(code="message_deferred", phase=SendPhase.ANSWERED, reply=451))
    await until(lambda: house.metric("oncebox_lease_conflicts_total") == 1)

    assert (await house.get(told.id)).state is SendState.UNKNOWN
    assert way.count == 1


@one_database
async def test_another_transport_takes_over_what_was_certainly_not_sent(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    async with ScriptedSmtp() as second:
        await house.change("relay", smtp(server), MAIN)
        await house.add(second, "second", position=1, group=MAIN)
        server.always("drop@connect")
        told = await house.send(wait=30)

        assert (told.status, told.transport) == (AnswerStatus.SENT, "second")
        assert len(second.accepted) == 1
        ways = [each.transport for each in await house.tries(told.id)]
        assert ways == ["relay", "second"]


@one_database
@pytest.mark.parametrize("fault", ["accept_then_drop", "451@rcpt"])
async def test_no_other_transport_takes_over_an_unknown_or_deferred_mail(
    house: PostHouse, server: ScriptedSmtp, fault: str
) -> None:
    async with ScriptedSmtp() as second:
        await house.change("relay", smtp(server), MAIN)
        await house.add(second, "second", position=1, group=MAIN)
        server.script(fault)
        told = await house.send(on_unknown="resend", wait=30)

        assert (told.status, told.transport) == (AnswerStatus.SENT, "relay")
        assert not second.accepted


@one_database
async def test_a_transport_the_caller_named_is_kept_when_it_fails(house: PostHouse) -> None:
    async with ScriptedProvider() as provider, ScriptedSmtp() as second:
        await house.add(provider, "resend", group=MAIN)
        await house.add(second, "second", position=1, group=MAIN)
        provider.script("429(0)", "drop_before_body")
        told = await house.send(transport="resend", wait=30)

        assert (told.status, told.transport) == (AnswerStatus.SENT, "resend")
        assert (len(provider.accepted), second.accepted) == (1, [])
        assert {each.transport for each in await house.tries(told.id)} == {"resend"}


@one_database
async def test_without_a_failover_group_no_other_transport_takes_over(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    async with ScriptedSmtp() as second:
        await house.add(second, "second", position=1)
        await house.add(second, "third", position=2, group=MAIN)
        server.script("drop@connect")
        told = await house.send(wait=30)

        assert (told.status, told.transport) == (AnswerStatus.SENT, "relay")
        assert not second.accepted


@one_database
async def test_a_mail_that_names_a_failover_group_goes_by_any_of_its_transports(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    async with ScriptedSmtp() as second, ScriptedSmtp() as third:
        await house.add(second, "second", position=1, group="news")
        await house.add(third, "third", position=2, group="news")
        second.always("drop@connect")
        told = await house.send(failover_group="news", wait=30)

        assert (told.status, told.transport) == (AnswerStatus.SENT, "third")
        assert (len(third.accepted), server.accepted) == (1, [])


@pytest.mark.parametrize("fits", [True, False])
async def test_a_mail_that_is_signed_moves_only_to_a_transport_that_signs_it(
    house: PostHouse, server: ScriptedSmtp, fits: bool
) -> None:
    """The sender of the house is shop@example.com."""
    own = DkimKey(domain="example.com", selector="s1", key=_SEED)
    other = DkimKey(domain="example.com" if fits else "example.org", selector="s2", key=_SEED)
    async with ScriptedSmtp() as plain, ScriptedSmtp() as keyed:
        await house.change("relay", smtp(server, dkim=(own,)), MAIN)
        await house.add(plain, "plain", position=1, group=MAIN)
        await house.add(keyed, "keyed", position=2, group=MAIN, dkim=(other,))
        server.script("drop@connect")
        told = await house.send(wait=30)

        assert (told.status, told.transport) == (AnswerStatus.SENT, "keyed" if fits else "relay")
        assert plain.accepted == []
        (taken,) = (*server.accepted, *keyed.accepted)
        assert taken.message.startswith(b"DKIM-Signature:")


@one_database
async def test_a_mail_that_must_be_signed_is_not_sent_without_its_key(
    place: Place, server: ScriptedSmtp
) -> None:
    key = DkimKey(domain="example.com", selector="s1", key=_SEED)
    other = DkimKey(domain="example.org", selector="s1", key=_SEED)
    async with open_house(place, tries=2) as house:
        await house.add(server, dkim=(key,))
        await house.pause()
        told = await house.send()
        await house.change("relay", smtp(server, dkim=(other,)))
        await house.pause(paused=False)
        send = await house.until(told.id, SendState.FAILED)

        assert (send.must_sign, send.code) == (True, "signature_missing")
        assert not server.accepted


async def test_what_waits_for_a_way_that_rests_goes_by_another(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    await house.change("relay", smtp(server), MAIN)
    server.always("drop@connect")
    first = [await house.send() for _ in range(8)]
    await house.rests()
    async with ScriptedSmtp() as second:
        await house.add(second, "second", position=1, group=MAIN)
        for each in first:
            await house.until(each.id, SendState.SENT)
        assert len(second.accepted) == len(first)


@one_database
async def test_nothing_goes_by_a_way_that_sends_nothing_instead(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    await house.box.send(mail(), key="logged", transport="log", wait=30)
    await house.change("relay", smtp(server), MAIN)
    log = NewTransport(name="log", kind="log", position=1, failover_group=MAIN)
    await house.rooms.database.write(transports.change, log, house.deed())
    server.script("drop@connect")
    told = await house.send(wait=30)

    assert (told.status, told.transport) == (AnswerStatus.SENT, "relay")


async def test_a_paused_transport_sends_nothing(house: PostHouse, server: ScriptedSmtp) -> None:
    await house.pause()
    told = await house.send()
    await house.box.send(mail(), key="logged", transport="log", wait=30)

    assert server.connections == 0
    assert (await house.get(told.id)).state is SendState.PENDING
    await house.pause(paused=False)
    await house.until(told.id, SendState.SENT)


async def test_who_is_suppressed_while_a_mail_waits_gets_none(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    await house.pause()
    told = await house.send()
    box, now = house.rooms.send_cipher, house.rooms.database.clock()
    address = "ann@example.org"
    listed = suppressions.Suppression(
        fingerprint=box.address_fingerprint(TENANT, address),
        address=box.encrypt_address(TENANT, address),
        reason=suppressions.SuppressionReason.MANUAL,
        send_id=None,
        created_at=now,
    )
    await house.rooms.database.write(suppressions.add, listed, house.deed())
    await house.pause(paused=False)
    await house.until(told.id, SendState.SUPPRESSED)

    await until(lambda: house.metric('oncebox_sends_total{status="suppressed"}') == 1)
    assert not server.accepted
    assert house.metric("oncebox_lease_conflicts_total") == 0


async def test_no_more_is_sent_than_the_rate_allows(place: Place, server: ScriptedSmtp) -> None:
    async with open_house(place) as house:
        await house.add(server, rate=TransportRate(3, 3_600_000))
        told = [await house.send() for _ in range(8)]
        await until(lambda: len(server.accepted) >= 3)
        await house.box.send(mail(), key="logged", transport="log", wait=30)

        states = [(await house.get(each.id)).state for each in told]
        assert states.count(SendState.PENDING) == 5
    assert len(server.accepted) == 3


@one_database
async def test_a_signed_mail_is_verified_by_somebody_elses_program(
    place: Place, server: ScriptedSmtp
) -> None:
    key = DkimKey(domain="example.com", selector="s1", key=_SEED)
    server.script("451@dot")
    async with open_house(place) as house:
        await house.add(server, dkim=(key,))
        await house.send(wait=30)

    (taken,) = server.accepted
    record = dkim_dns_record(read_signing_key(_SEED.encode())).encode()
    assert dkim.verify(taken.message, dnsfunc=lambda _name, timeout=5: record)


@one_database
@pytest.mark.parametrize("fault", ["silence@hello", "silence@rcpt", "silence@data"])
async def test_who_stops_gives_back_what_is_not_marked(
    place: Place, server: ScriptedSmtp, fault: str
) -> None:
    async with open_house(place) as house:
        await house.add(server)
        server.script(fault)
        told = await house.send()
        await until(lambda: server.script_is_over)
    async with open_house(place) as house:
        found = await house.get(told.id)
        tries = await house.tries(told.id)

        assert (found.state, found.tries) == (SendState.PENDING, 0)
        assert [each.code for each in tries] == ["given_back"]
        await house.send("wakes the worker", wait=30)
        await house.until(told.id, SendState.SENT)
    assert server.count(told.message_id) == 1


@one_database
async def test_who_stops_while_the_answer_is_out_leaves_doubt(
    place: Place, server: ScriptedSmtp
) -> None:
    async with open_house(place) as house:
        await house.add(server)
        server.script("accept_then_silence")
        told = await house.send()
        await until(lambda: len(server.accepted) == 1)
    async with open_house(place) as house:
        found = await house.get(told.id)

    assert (found.state, found.phase) == (SendState.UNKNOWN, SendPhase.HANDED_OVER)
    assert found.code == "worker_stopped"
    assert server.count(told.message_id) == 1


@one_database
async def test_a_silent_transport_does_not_stop_the_others(
    place: Place, server: ScriptedSmtp
) -> None:
    async with ScriptedSmtp() as second, open_house(place, concurrency=4) as house:
        server.always("silence@hello")
        await house.add(server)
        await house.add(second, "second", position=1)
        for _ in range(6):
            await house.send()
        told = await house.box.send(mail(), key="other", transport="second", wait=30)

        assert told.status is AnswerStatus.SENT
