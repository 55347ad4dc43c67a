"""Ways: paused, rated and resting transports, for all processes together."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from oncebox.errors import MasterKeyWrong, NotFound, StateConflict
from oncebox.ledger.sends import lifecycle, submission, transports
from oncebox.model.sends.send import OnUnknown, SendState
from oncebox.model.sends.transports import (
    BreakerRules,
    ConfiguredTransport,
    NewTransport,
    NotSent,
    SendOutcome,
    SendPhase,
    SendRejected,
    SendUnknown,
    TransportRate,
    counts_as_failure,
    proves_working,
)
from tests.support.clerk import DAY, HOUR, LEASE, MINUTE, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.mailer import (
    BOUNCED,
    BOX,
    NO_KEY,
    REFUSED,
    RELAY,
    SILENCE,
    TAKEN,
    UNREACHED,
    Mailer,
)

RULES = BreakerRules()


@pytest.fixture
def mailer(clerk: Clerk) -> Mailer:
    return Mailer(clerk)


def _way(mailer: Mailer, name: str = RELAY) -> ConfiguredTransport:
    return mailer.clerk.run(transports.get, TENANT, name)


# configured


def test_a_transport_is_added_changed_and_listed_by_its_place(mailer: Mailer) -> None:
    sealed = BOX.encrypt_field("config", TENANT, "second", b"secret")
    new = NewTransport(name="second", kind="resend", config=sealed, position=-1)
    mailer.clerk.run(transports.add, new, mailer.deed())
    with pytest.raises(StateConflict):
        mailer.clerk.run(transports.add, new, mailer.deed())
    changed = msgspec.structs.replace(new, position=5)
    mailer.clerk.run(transports.change, changed, mailer.deed())

    names = [each.name for each in mailer.clerk.run(transports.of_tenant, TENANT)]
    assert names == [RELAY, "second"]
    assert (
        BOX.decrypt_field("config", TENANT, "second", _way(mailer, "second").config or b"")
        == b"secret"
    )
    with pytest.raises(MasterKeyWrong):
        BOX.decrypt_field("config", TENANT, RELAY, sealed)
    assert mailer.audited("transport:second") == [
        ("transport add", "resend"),
        ("transport change", "resend"),
    ]
    with pytest.raises(NotFound):
        mailer.clerk.run(transports.get, "globex", RELAY)


# paused


def _due(mailer: Mailer, now: int) -> list[tuple[str, str]]:
    found = mailer.clerk.run(transports.with_due_sends, now)
    return [(each.tenant, each.name) for each in found]


def test_by_a_paused_transport_nothing_is_claimed(mailer: Mailer) -> None:
    mailer.intend()
    mailer.pause()
    assert mailer.claim() == []
    assert _due(mailer, mailer.clerk.now) == []
    mailer.pause(paused=False)

    assert _due(mailer, mailer.clerk.now) == [(TENANT, RELAY)]
    assert len(mailer.claim()) == 1
    assert [action for action, _ in mailer.audited(f"transport:{RELAY}")] == [
        "transport add",
        "transport pause",
        "transport resume",
    ]


def test_what_is_on_its_way_goes_on_when_its_transport_is_paused(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.pause()

    assert mailer.say(send, TAKEN)
    with pytest.raises(NotFound):
        mailer.pause("nowhere")


def test_a_way_is_waited_for_only_by_what_is_due(mailer: Mailer) -> None:
    mailer.intend(send_at=mailer.clerk.now + MINUTE)
    assert _due(mailer, mailer.clerk.now) == []

    assert _due(mailer, mailer.clerk.now + MINUTE) == [(TENANT, RELAY)]


# removed


def test_a_removed_transport_is_gone_with_its_signing_domains_and_that_is_audited(
    mailer: Mailer,
) -> None:
    mailer.add_transport("second", position=1, signs=("example.com",))
    mailer.add_transport("second", tenant="globex", signs=("example.com",))

    assert mailer.remove("second").name == "second"

    assert [each.name for each in mailer.clerk.run(transports.of_tenant, TENANT)] == [RELAY]
    assert mailer.clerk.run(transports.signing_domains, TENANT) == {}
    assert mailer.clerk.run(transports.signing_domains, "globex") == {"second": ["example.com"]}
    assert mailer.audited("transport:second")[-1] == ("transport remove", "smtp")
    with pytest.raises(NotFound):
        mailer.remove("second")


def test_mail_that_names_no_transport_uses_the_next_one_after_a_removal(mailer: Mailer) -> None:
    mailer.add_transport("second", position=1)
    mailer.remove()

    assert mailer.intend("default", transport="").send.transport == "second"
    assert mailer.ask(mailer.new("named")) == [None]


def _later(mailer: Mailer, key: str) -> object:
    return mailer.intend(key, send_at=mailer.clerk.now + DAY)


def _claimed(mailer: Mailer, key: str) -> object:
    mailer.intend(key)
    return mailer.claim_one()


@pytest.mark.parametrize(
    ("put", "counted"),
    [
        (Mailer.intend, "1 waits"),
        (_later, "1 waits"),
        (_claimed, "1 is on its way"),
        (Mailer.start, "1 is on its way"),
        (Mailer.in_doubt, "1 has an unknown outcome"),
    ],
)
def test_a_transport_that_a_send_needs_is_not_removed(
    mailer: Mailer, put: Callable[[Mailer, str], object], counted: str
) -> None:
    put(mailer, "key")

    with pytest.raises(StateConflict, match=f"needed by sends: {counted}; ") as refused:
        mailer.remove()

    assert _way(mailer).name == RELAY
    assert "oncebox transport change" in str(refused.value)
    assert "transport remove" not in dict(mailer.audited(f"transport:{RELAY}"))


def test_a_refused_removal_counts_the_sends_of_that_transport_only(mailer: Mailer) -> None:
    mailer.add_transport("second", position=1)
    mailer.intend("elsewhere", transport="second")
    for key in "abc":
        mailer.in_doubt(key)
    for key in "de":
        mailer.intend(key)

    with pytest.raises(StateConflict, match="2 wait, 3 have an unknown outcome; "):
        mailer.remove()


def test_a_transport_whose_sends_have_ended_is_removed(mailer: Mailer) -> None:
    sent, failed, called_off = mailer.start("a"), mailer.start("b"), mailer.intend("c").send
    mailer.say(sent, TAKEN)
    mailer.say(failed, BOUNCED)
    mailer.cancel(called_off.id)
    known = mailer.in_doubt("d")
    mailer.resolve(known.id, sent=True)

    mailer.remove()

    assert mailer.get(sent.id).transport == RELAY


def test_what_was_not_sent_is_not_tried_again_by_a_removed_transport(mailer: Mailer) -> None:
    failed = mailer.start()
    mailer.say(failed, BOUNCED)
    mailer.remove()

    with pytest.raises(StateConflict, match="its transport was removed; "):
        mailer.resend(failed.id)

    assert mailer.state(failed.id) is SendState.FAILED
    mailer.add_transport("second")
    assert mailer.intend(transport="").send.transport == "second"


def test_a_removal_sees_a_send_that_is_stored_at_the_same_moment(mailer: Mailer) -> None:
    new, now, deed = mailer.new(), mailer.clerk.now, mailer.deed()

    with pytest.raises(StateConflict, match="1 waits"):
        interleave(
            mailer.clerk.place,
            lambda tx: submission.store_intents(tx, [new], now),
            lambda tx: transports.remove(tx, RELAY, deed),
        )

    assert mailer.claim_one().id == new.id


def test_a_removal_sees_a_send_that_is_tried_again_at_the_same_moment(mailer: Mailer) -> None:
    failed = mailer.start()
    mailer.say(failed, BOUNCED)
    one, other = mailer.deed(), mailer.deed()

    with pytest.raises(StateConflict, match="1 waits"):
        interleave(
            mailer.clerk.place,
            lambda tx: lifecycle.resend(tx, failed.id, one),
            lambda tx: transports.remove(tx, RELAY, other),
        )

    assert mailer.claim_one().id == failed.id


def test_a_send_that_comes_while_its_transport_is_removed_is_refused(mailer: Mailer) -> None:
    new, now, deed = mailer.new(), mailer.clerk.now, mailer.deed()

    _, stored = interleave(
        mailer.clerk.place,
        lambda tx: transports.remove(tx, RELAY, deed),
        lambda tx: submission.store_intents(tx, [new], now),
    )

    assert stored == [None]
    assert mailer.rows("SELECT id FROM oncebox_sends") == []


def test_a_send_that_names_no_transport_goes_by_another_while_its_first_is_removed(
    mailer: Mailer,
) -> None:
    mailer.add_transport("second", position=1)
    new, now, deed = mailer.new(transport=""), mailer.clerk.now, mailer.deed()

    interleave(
        mailer.clerk.place,
        lambda tx: transports.remove(tx, RELAY, deed),
        lambda tx: submission.store_intents(tx, [new], now),
    )

    assert mailer.get(new.id).transport == "second"


# rates


def test_no_more_is_begun_than_the_rate_allows(mailer: Mailer) -> None:
    mailer.add_transport("slow", rate=TransportRate(3, MINUTE))
    for n in range(10):
        mailer.intend(f"key {n}", transport="slow")

    assert [len(mailer.claim(transport="slow")) for _ in range(3)] == [3, 0, 0]
    mailer.clerk.now += MINUTE // 3
    assert [len(mailer.claim(transport="slow")) for _ in range(2)] == [1, 0]
    mailer.clerk.now += HOUR
    assert len(mailer.claim(transport="slow")) == 3, "a long rest saves up no more than a minute's"


def test_of_two_who_claim_at_once_nobody_exceeds_the_rate(mailer: Mailer) -> None:
    mailer.add_transport("slow", rate=TransportRate(3, MINUTE))
    for n in range(10):
        mailer.intend(f"key {n}", transport="slow")
    now = mailer.clerk.now
    ann, ben = (lifecycle.SendClaimant(TENANT, "slow", name, LEASE) for name in ("ann", "ben"))
    first, second = interleave(
        mailer.clerk.place,
        lambda tx: lifecycle.claim(tx, ann, 2, now),
        lambda tx: lifecycle.claim(tx, ben, 2, now),
    )

    assert (len(first), len(second)) == (2, 1)


def test_a_clock_that_steps_back_brings_no_room(mailer: Mailer) -> None:
    mailer.add_transport("slow", rate=TransportRate(1, MINUTE))
    for n in range(3):
        mailer.intend(f"key {n}", transport="slow")
    assert len(mailer.claim(transport="slow")) == 1
    mailer.clerk.now -= 1
    assert mailer.claim(transport="slow") == []
    mailer.clerk.now += 1

    assert mailer.claim(transport="slow") == []


def test_a_clock_that_was_far_ahead_stops_no_mail_for_ever(mailer: Mailer) -> None:
    mailer.add_transport("slow", rate=TransportRate(1, MINUTE))
    for n in range(3):
        mailer.intend(f"key {n}", transport="slow")
    right = mailer.clerk.now
    mailer.clerk.now += 400 * DAY
    assert len(mailer.claim(transport="slow")) == 1
    mailer.clerk.now = right

    assert mailer.claim(transport="slow") == []
    mailer.clerk.now += MINUTE
    assert len(mailer.claim(transport="slow")) == 1


# the breaker


def _fail(mailer: Mailer, count: int, outcome: NotSent = UNREACHED) -> None:
    for n in range(count):
        mailer.intend(f"failing {n} {mailer.clerk.now}")
        send = mailer.claim(most=1)[0].send
        mailer.say(send, outcome, wait=None)


def test_a_transport_rests_after_failures_in_a_row(mailer: Mailer) -> None:
    _fail(mailer, RULES.failures - 1)
    assert _way(mailer).rests_until is None
    _fail(mailer, 1)

    assert _way(mailer).rests_until == mailer.clerk.now + RULES.first_rest
    mailer.intend()
    assert mailer.claim() == []
    assert _due(mailer, mailer.clerk.now) == []


def test_a_success_ends_the_row_of_failures(mailer: Mailer) -> None:
    _fail(mailer, RULES.failures - 1)
    mailer.say(mailer.start(), TAKEN)
    _fail(mailer, RULES.failures - 1)

    assert _way(mailer).rests_until is None


def test_a_revoked_key_lets_the_transport_rest_at_once_and_burns_nothing(mailer: Mailer) -> None:
    for key in "abc":
        mailer.intend(key)
    send = mailer.claim(most=1)[0].send
    mailer.say(send, NO_KEY)

    assert mailer.claim() == []
    states = {row[0] for row in mailer.rows("SELECT state FROM oncebox_sends")}
    assert states == {SendState.PENDING}


def test_after_its_rest_one_send_tries_and_the_others_wait(mailer: Mailer) -> None:
    _fail(mailer, RULES.failures)
    for key in "abc":
        mailer.intend(key)
    mailer.clerk.now += RULES.first_rest
    (probe,) = mailer.claim()
    assert mailer.claim() == []

    mailer.say(probe.send, TAKEN)
    assert (_way(mailer).failures, _way(mailer).rests_until) == (0, None)
    assert len(mailer.claim()) == 2


def test_a_probe_that_fails_lets_it_rest_twice_as_long(mailer: Mailer) -> None:
    _fail(mailer, RULES.failures)
    rest = RULES.first_rest
    for _ in range(8):
        mailer.clerk.now = _way(mailer).rests_until or 0
        _fail(mailer, 1)
        rest = min(2 * rest, RULES.longest_rest)
        assert _way(mailer).rests_until == mailer.clerk.now + rest


def test_a_probe_that_is_lost_is_followed_by_another(mailer: Mailer) -> None:
    _fail(mailer, RULES.failures)
    for key in "ab":
        mailer.intend(key)
    mailer.clerk.now += RULES.first_rest
    assert len(mailer.claim()) == 1
    mailer.lose()

    assert len(mailer.claim()) == 1


def test_a_rest_with_nothing_to_try_goes_on_to_be_a_probe(mailer: Mailer) -> None:
    _fail(mailer, RULES.failures)
    mailer.clerk.now += RULES.first_rest
    assert mailer.claim() == []
    mailer.intend()

    assert len(mailer.claim()) == 1


def test_of_two_who_claim_after_a_rest_one_tries(mailer: Mailer) -> None:
    _fail(mailer, RULES.failures)
    for key in "ab":
        mailer.intend(key)
    mailer.clerk.now += RULES.first_rest
    now = mailer.clerk.now
    ann, ben = (lifecycle.SendClaimant(TENANT, RELAY, name, LEASE) for name in ("ann", "ben"))
    first, second = interleave(
        mailer.clerk.place,
        lambda tx: lifecycle.claim(tx, ann, 9, now),
        lambda tx: lifecycle.claim(tx, ben, 9, now),
    )

    assert (len(first), len(second)) == (1, 0)


def test_what_fails_while_it_rests_was_begun_before_and_prolongs_nothing(mailer: Mailer) -> None:
    for n in range(20):
        mailer.intend(f"key {n}")
    for claimed in mailer.claim():
        mailer.say(claimed.send, UNREACHED)

    assert _way(mailer).rests == 1
    assert _way(mailer).rests_until == mailer.clerk.now + RULES.first_rest


def test_failures_of_one_commit_count_together(mailer: Mailer) -> None:
    for n in range(RULES.failures):
        mailer.intend(f"key {n}")
    mailer.settle(*(mailer.word(each.send, UNREACHED) for each in mailer.claim()))

    assert _way(mailer).rests == 1


def test_one_transport_rests_and_the_others_go_on(mailer: Mailer) -> None:
    mailer.add_transport("other")
    mailer.intend("x", transport="other")
    _fail(mailer, RULES.failures)

    assert len(mailer.claim(transport="other")) == 1


#: of each case: the send, its own way, the other way, and whether it may move there
_MOVES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], bool]] = {
    "same group": ({}, {}, {}, True),
    "named": ({"pinned": True}, {}, {}, False),
    "no group": ({}, {"group": ""}, {"failover_group": ""}, False),
    "other group": ({}, {}, {"failover_group": "news"}, False),
    "not signed": ({}, {"signs": ("example.com",)}, {}, False),
    "signed": ({}, {"signs": ("example.com",)}, {"signs": ("example.com",)}, True),
    "of a subdomain": (
        {"message_id": "<k@mail.example.com>"},
        {"signs": ("mail.example.com",)},
        {"signs": ("example.com", "x.org")},
        True,
    ),
    "of a subdomain only": (
        {},
        {"signs": ("example.com",)},
        {"signs": ("mail.example.com", "notexample.com", "com.example.com.org")},
        False,
    ),
    "by resend": ({}, {"signs": ("example.com",)}, {"kind": "resend"}, True),
    "of another domain": ({}, {"signs": ("example.org",)}, {}, True),
}


@pytest.fixture(params=_MOVES)
def move(request: pytest.FixtureRequest, mailer: Mailer) -> tuple[dict[str, Any], bool]:
    """Two ways, and a send that may or may not move from the one to the other."""
    send, own, other, moves = _MOVES[request.param]
    mailer.join_group(**own)
    mailer.add_transport("other", **{"failover_group": "main", "position": 1, **other})
    return send, moves


def test_a_waiting_send_moves_only_within_its_group_and_signed_if_it_must_be(
    mailer: Mailer, move: tuple[dict[str, Any], bool]
) -> None:
    more, moves = move
    _fail(mailer, 1, NO_KEY)
    waiting = mailer.intend("waiting", **more).send

    assert mailer.clerk.run(transports.divert_stranded, mailer.clerk.now) == int(moves)
    assert mailer.get(waiting.id).transport == ("other" if moves else RELAY)


def test_a_failed_try_moves_a_send_only_within_its_group_and_signed_if_it_must_be(
    mailer: Mailer, move: tuple[dict[str, Any], bool]
) -> None:
    more, moves = move
    mailer.intend("tried", **more)
    send = mailer.claim_one()
    found = mailer.clerk.run(transports.failover_target, TENANT, send.id, mailer.clerk.now)
    # Whatever a worker says.
    assert mailer.say(send, UNREACHED, move_to="other")

    assert found == ("other" if moves else None)
    assert mailer.get(send.id).transport == ("other" if moves else RELAY)


def test_a_key_that_is_added_later_counts_for_what_waits(mailer: Mailer) -> None:
    mailer.join_group()
    mailer.add_transport("other", failover_group="main", position=1)
    waiting = mailer.intend("waiting").send
    mailer.join_group(signs=("example.com",))
    mailer.join_group()

    found = mailer.get(waiting.id)
    assert (waiting.must_sign, found.must_sign) == (False, True)
    assert mailer.clerk.run(transports.failover_target, TENANT, found.id, mailer.clerk.now) is None


def test_an_intent_that_is_rearmed_is_pinned_and_signed_as_it_is_asked_for_again(
    mailer: Mailer,
) -> None:
    mailer.join_group(signs=("example.com",))
    mailer.add_transport("other", failover_group="news", position=1)
    first = mailer.start()
    mailer.say(first, BOUNCED)
    again = mailer.intend(transport="", failover_group="news")
    mailer.cancel(again.send.id)
    named = mailer.intend(pinned=True)

    assert (first.pinned, first.must_sign) == (False, True)
    assert again.rearmed
    assert (again.send.transport, again.send.must_sign) == ("other", False)
    assert (named.send.transport, named.send.pinned, named.send.must_sign) == (RELAY, True, True)


def test_the_first_of_a_named_group_is_chosen_and_a_missing_group_stores_nothing(
    mailer: Mailer,
) -> None:
    mailer.add_transport("second", failover_group="news", position=2)
    mailer.add_transport("first", failover_group="news", position=1)
    chosen = mailer.intend(transport="", failover_group="news").send

    assert (chosen.transport, chosen.pinned) == ("first", False)
    assert mailer.ask(mailer.new("x", transport="", failover_group="none")) == [None]
    assert len(mailer.rows("SELECT id FROM oncebox_sends")) == 1


def test_what_waits_for_a_resting_way_goes_by_the_first_that_works(mailer: Mailer) -> None:
    mailer.join_group()
    held = mailer.in_doubt("held", on_unknown=OnUnknown.RESEND)
    _fail(mailer, 1, NO_KEY)
    waiting = mailer.intend("waiting").send
    later = mailer.intend("later", send_at=mailer.clerk.now + HOUR).send
    for n, name in enumerate(("nothing", "paused", "second", "third")):
        mailer.add_transport(name, position=n + 1, failover_group="main")
    nothing = NewTransport(name="nothing", kind="log", position=1, failover_group="main")
    mailer.clerk.run(transports.change, nothing, mailer.deed())
    mailer.pause("paused")

    assert mailer.clerk.run(transports.divert_stranded, mailer.clerk.now) == 1
    assert mailer.get(waiting.id).transport == "second"
    assert mailer.get(held.id).transport == RELAY
    assert mailer.get(later.id).transport == RELAY
    assert mailer.clerk.run(transports.divert_stranded, mailer.clerk.now) == 0


def test_nothing_is_diverted_from_a_way_that_somebody_paused(mailer: Mailer) -> None:
    mailer.join_group()
    _fail(mailer, 1, NO_KEY)
    waiting = mailer.intend("waiting").send
    mailer.add_transport("second", position=1, failover_group="main")
    mailer.pause()

    assert mailer.clerk.run(transports.divert_stranded, mailer.clerk.now) == 0
    assert mailer.get(waiting.id).transport == RELAY


def test_a_try_that_is_free_is_not_counted(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()
    assert mailer.say(send, NO_KEY, uncounted=True)

    assert (mailer.get(send.id).tries, mailer.state(send.id)) == (0, SendState.PENDING)


def test_a_transport_that_is_changed_is_tried_at_once(mailer: Mailer) -> None:
    _fail(mailer, 1, NO_KEY)
    mailer.clerk.run(transports.change, NewTransport(name=RELAY, kind="smtp"), mailer.deed())
    mailer.intend()

    assert len(mailer.claim()) == 1


def test_who_keeps_a_part_of_a_transport_overwrites_no_later_change(mailer: Mailer) -> None:
    seen = mailer.clerk.run(transports.get, TENANT, RELAY).changed_at
    new = NewTransport(name=RELAY, kind="smtp", position=1)
    first = mailer.clerk.run(transports.change, new, mailer.deed(), seen=seen)

    assert first.changed_at > seen  # though no time has passed
    with pytest.raises(StateConflict):
        mailer.clerk.run(transports.change, new, mailer.deed(), seen=seen)
    gone = msgspec.structs.replace(new, name="gone")
    with pytest.raises(NotFound):
        mailer.clerk.run(transports.change, gone, mailer.deed(), seen=seen)
    again = mailer.clerk.run(transports.change, new, mailer.deed(), seen=first.changed_at)
    assert again.position == 1


def test_a_mail_that_nobody_was_asked_to_take_does_not_show_that_its_way_works(
    mailer: Mailer,
) -> None:
    for n in range(RULES.failures):
        mailer.say(mailer.start(f"{n}"), UNREACHED)
    mailer.clerk.now += RULES.first_rest
    mailer.intend("malformed")
    (probe,) = mailer.claim()
    flaw = SendRejected(code="line_too_long", phase=SendPhase.CONNECT)
    assert mailer.say(probe.send, flaw)

    assert _way(mailer).failures == RULES.failures
    assert _way(mailer).state(mailer.clerk.now) == "resting"
    mailer.clerk.now += LEASE
    assert len(mailer.claim()) == 1, "the next one tries whether it works again"


def test_a_try_that_was_ended_from_here_says_nothing_of_the_way(mailer: Mailer) -> None:
    ended: list[SendOutcome] = [
        NotSent(code="given_back", phase=SendPhase.CONNECT),
        NotSent(code="store_unavailable", phase=SendPhase.CONNECT),
        SendUnknown(code="worker_stopped", phase=SendPhase.HANDED_OVER),
    ]
    for n, outcome in enumerate(ended * 2):
        assert mailer.say(mailer.start(f"{n}"), outcome)

    assert (_way(mailer).failures, _way(mailer).rests_until) == (0, None)


def test_what_is_wrong_with_one_message_says_nothing_of_the_way() -> None:
    fence_lost = NotSent(code="fence_lost", phase=SendPhase.CONNECT)

    assert [counts_as_failure(each) for each in (TAKEN, BOUNCED, REFUSED, fence_lost)] == [
        False
    ] * 4
    assert [counts_as_failure(each) for each in (UNREACHED, NO_KEY, SILENCE)] == [True] * 3
    assert [proves_working(each) for each in (TAKEN, BOUNCED, UNREACHED)] == [True, True, False]
