"""Inboxes: one for each attempt and label, whoever asks how often, and no address twice."""

from threading import Barrier, Thread
from typing import Any

import pytest

from oncebox.errors import DatabaseBusy, NotFound
from oncebox.errors.mail import (
    AddressInvalid,
    AddressTaken,
    DomainRequired,
    DomainUnknown,
    InboxConflict,
    InboxInvalid,
)
from oncebox.ledger.admin import audit
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.attempts import attempts
from oncebox.ledger.inboxes import inboxes
from oncebox.model.attempts import single_attempt
from oncebox.model.inboxes.inbox import Inbox, InboxOptions, InboxPolicy, InboxState
from oncebox.model.inboxes.purpose import Purpose
from tests.support.clerk import MINUTE, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.mailroom import ALL, LIFETIME, MailRoom, agent
from tests.support.office import Office

OTHER = Requester(tenant="default")


@pytest.fixture
def room(clerk: Clerk) -> MailRoom:
    return MailRoom(clerk)


# making


def test_an_inbox_is_kept_with_all_that_was_wished(room: MailRoom) -> None:
    policy = InboxPolicy(
        senders=("github.com",),
        token="t",
        purpose=Purpose.LOGIN,
        resends=3,
        link_hosts=("app.example.com",),
        link_origins=("http://localhost:3000",),
    )
    made = room.make(agent("key_1"), attempt_id="a", label="b", metadata={"x": "ü"}, policy=policy)

    assert room.get(made.id) == made
    assert (made.attempt_id, made.label, made.owner) == ("a", "b", "key_1")
    assert (made.metadata, made.policy) == ({"x": "ü"}, policy)
    assert made.state is InboxState.ACTIVE
    assert made.active_until == room.clerk.now + LIFETIME * 1000
    assert made.domain == "oncebox.test"
    assert len(made.email.partition("@")[0]) == 16
    assert room.told("inbox.created") == [("inbox.created", made.id)]


def test_an_inbox_may_be_for_ever(room: MailRoom) -> None:
    made = room.make(lifetime=0)

    assert (made.active_until, made.due_at) == (None, None)


def test_a_repeat_is_the_same_inbox_and_records_no_event(room: MailRoom) -> None:
    first = room.make(attempt_id="a", metadata={"x": "1"})
    room.clerk.now += MINUTE
    (again,) = room.made(InboxOptions(attempt_id="a", metadata={"x": "1"}, lifetime=5))

    assert (again.inbox, again.new) == (first, False)
    assert room.count() == 1
    assert len(room.events()) == 1


def test_a_repeat_of_one_that_has_ended_is_still_the_same(room: MailRoom) -> None:
    first = room.make(attempt_id="a")
    room.close(first.id, 0)

    again = room.make(attempt_id="a")
    assert (again.id, again.state) == (first.id, InboxState.CLOSED)


@pytest.mark.parametrize(
    ("other", "word"),
    [
        ({"metadata": {"x": "2"}}, "metadata"),
        ({"policy": InboxPolicy(token="t")}, "policy"),
        ({"domain": "mine.test"}, "domain"),
        ({"local": "me"}, "local"),
    ],
)
def test_a_repeat_with_other_words_is_refused(
    room: MailRoom, other: dict[str, Any], word: str
) -> None:
    room.add_domain("mine.test")
    room.make(attempt_id="a")

    with pytest.raises(InboxConflict, match=word):
        room.make(attempt_id="a", **other)
    assert room.count() == 1


def test_labels_tell_inboxes_of_one_attempt_apart(room: MailRoom) -> None:
    ids = {room.make(attempt_id="a", label=label).id for label in ("", "x", "y", "x")}

    assert len(ids) == 3


def test_without_an_attempt_every_inbox_is_a_new_one(room: MailRoom) -> None:
    assert room.make().id != room.make().id


def test_two_tenants_may_attempt_the_same(room: MailRoom) -> None:
    room.add_domain("theirs.test", "default")
    mine = room.make(attempt_id="a")
    theirs = room.make(OTHER, attempt_id="a")

    assert mine.id != theirs.id
    assert (theirs.domain, theirs.tenant) == ("theirs.test", "default")


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"domain": "foreign.test"}, DomainUnknown),
        ({"domain": "missing.test"}, DomainUnknown),
        ({"domain": "nonsense"}, AddressInvalid),
        ({"local": "a b"}, AddressInvalid),
        ({"local": "a+b"}, AddressInvalid),
        ({"label": "a\nb"}, InboxInvalid),
        ({"policy": InboxPolicy(senders=("x",))}, InboxInvalid),
    ],
)
def test_what_cannot_be_made_is_refused(
    room: MailRoom, wish: dict[str, Any], error: type[Exception]
) -> None:
    room.add_domain("foreign.test", "default")

    with pytest.raises(error):
        room.make(**wish)
    assert room.count() == 0


def test_a_foreign_domain_and_a_missing_one_look_the_same(room: MailRoom) -> None:
    room.add_domain("foreign.test", "default")
    said = set()
    for domain in ("foreign.test", "missing.test"):
        with pytest.raises(DomainUnknown) as refused:
            room.make(domain=domain)
        said.add(str(refused.value))

    assert len(said) == 1


def test_who_has_no_domain_or_several_must_choose(room: MailRoom) -> None:
    with pytest.raises(DomainRequired):
        room.make(OTHER)
    room.add_domain("one.test", "default")
    only = room.make(OTHER)
    room.add_domain("two.test", "default")
    with pytest.raises(DomainRequired):
        room.make(OTHER)

    assert only.domain == "one.test"


# addresses


def test_a_collision_is_drawn_again(clerk: Clerk) -> None:
    dice = [b"0123456789", b"0123456789", b"0123456789", b"9876543210"]
    room = MailRoom(clerk, random=lambda _: dice.pop(0))

    first, second = room.make(), room.make(attempt_id="a")

    assert first.email != second.email
    assert dice == []


def test_a_collision_within_one_call_is_drawn_again(clerk: Clerk) -> None:
    dice = [b"0123456789", b"0123456789", b"9876543210"]
    room = MailRoom(clerk, random=lambda _: dice.pop(0))

    made = room.made(InboxOptions(), InboxOptions())

    assert len({each.inbox.email for each in made}) == 2


def test_loaded_dice_end_in_a_refusal(clerk: Clerk) -> None:
    room = MailRoom(clerk, random=lambda _: b"0123456789")
    room.make()

    with pytest.raises(AddressTaken):
        room.make()


def test_an_address_that_was_given_out_is_never_given_out_again(room: MailRoom) -> None:
    first = room.make(local="Support")
    room.close(first.id, 0)

    with pytest.raises(AddressTaken):
        room.make(local="support")
    assert first.email == "support@oncebox.test"


def test_of_two_concurrent_requests_for_an_address_one_is_refused(room: MailRoom) -> None:
    wish, now = [InboxOptions(local="support")], room.clerk.now
    room.make()

    with pytest.raises(AddressTaken):
        interleave(
            room.clerk.place,
            lambda tx: room.postmaster.allocate(tx, ALL, wish, now),
            lambda tx: room.postmaster.allocate(tx, ALL, wish, now),
        )


# races


def test_two_who_make_one_attempt_at_once_get_one_inbox(room: MailRoom) -> None:
    wish, now = [InboxOptions(attempt_id="a")], room.clerk.now

    (one,), (two,) = interleave(
        room.clerk.place,
        lambda tx: room.postmaster.allocate(tx, ALL, wish, now),
        lambda tx: room.postmaster.allocate(tx, ALL, wish, now),
    )

    assert (one.inbox.id, one.new) == (two.inbox.id, not two.new)
    assert room.count() == 1
    assert len(room.events()) == 1


def test_concurrent_creators_of_one_attempt_get_one_inbox(room: MailRoom) -> None:
    begin = Barrier(6)
    found: list[Inbox] = []

    def make() -> None:
        session = room.clerk.place.session()
        begin.wait()
        (made,) = session.run(
            lambda tx: room.postmaster.allocate(
                tx, ALL, [InboxOptions(attempt_id="a")], room.clerk.now
            )
        )
        found.append(made.inbox)
        session.close()

    threads = [Thread(target=make) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len(found) == 6
    assert len({each.id for each in found}) == 1


def test_batches_in_crossed_order_do_not_block_each_other_for_ever(room: MailRoom) -> None:
    forward = [InboxOptions(attempt_id=str(number)) for number in range(20)]
    now = room.clerk.now

    one, two = interleave(
        room.clerk.place,
        lambda tx: room.postmaster.allocate(tx, ALL, forward, now),
        lambda tx: room.postmaster.allocate(tx, ALL, forward[::-1], now),
    )

    assert [each.inbox.id for each in one] == [each.inbox.id for each in two[::-1]]
    assert room.count() == 20


# several at once


def test_five_hundred_are_made_in_one_commit_and_in_order(room: MailRoom) -> None:
    wishes = [InboxOptions(attempt_id=f"a{number}") for number in range(499, -1, -1)]
    made = room.made(*wishes)

    assert [each.inbox.attempt_id for each in made] == [each.attempt_id for each in wishes]
    assert len({each.inbox.email for each in made}) == 500
    assert len(room.told("inbox.created")) == 500


def test_a_pair_that_comes_twice_in_one_call_is_one_inbox(room: MailRoom) -> None:
    one, two, other = room.made(*(InboxOptions(attempt_id=each) for each in ("a", "a", "b")))

    assert one.inbox.id == two.inbox.id != other.inbox.id
    assert (one.new, two.new) in {(True, False), (False, True)}


def test_one_that_is_refused_takes_all_along(room: MailRoom) -> None:
    room.make(attempt_id="a")

    with pytest.raises(InboxConflict, match="number 2"):
        room.made(InboxOptions(attempt_id="b"), InboxOptions(attempt_id="a", metadata={"x": "y"}))
    assert room.count() == 1


# seeing


def test_an_agent_sees_only_what_its_key_made(room: MailRoom) -> None:
    mine = room.make(agent("key_1"), attempt_id="a")
    theirs = room.make(agent("key_2"), attempt_id="b")

    assert room.get(mine.id, agent("key_1")) == mine
    for verb in (room.get, room.close, room.rotate):
        with pytest.raises(NotFound):
            verb(theirs.id, asker=agent("key_1"))
    with pytest.raises(NotFound):
        room.clerk.run(inboxes.attempt_stats, agent("key_1"), single_attempt("b"))
    with pytest.raises(InboxConflict, match="attempt 'b' belongs to another API key"):
        room.make(agent("key_1"), attempt_id="b")
    assert room.get(theirs.id).state is InboxState.ACTIVE
    assert _listed(room, agent("key_1")) == [mine.id]
    assert _listed(room, agent("key_1"), attempt_id="b") == []
    assert _listed(room) == [theirs.id, mine.id]
    assert room.make(attempt_id="b").id == theirs.id


def test_an_agent_without_a_key_sees_nothing(room: MailRoom) -> None:
    room.make()

    assert _listed(room, Requester(tenant=TENANT, sees_all=False)) == []


def test_nothing_is_seen_of_another_tenant(room: MailRoom) -> None:
    made = room.make(attempt_id="a")

    for verb in (room.get, room.close, room.rotate):
        with pytest.raises(NotFound):
            verb(made.id, asker=OTHER)
    assert _listed(room, OTHER) == []
    assert room.get(made.id) == made


def test_inboxes_are_listed_newest_first_in_parts(room: MailRoom) -> None:
    ids = [room.make(attempt_id=str(number % 2)).id for number in range(2)]
    ids += [room.make(label=str(number)).id for number in range(3)]
    room.close(ids[3], 0)

    assert _listed(room) == ids[::-1]
    assert _listed(room, before=ids[3], most=2) == ids[2:0:-1]
    assert _listed(room, state=InboxState.CLOSED) == [ids[3]]
    assert _listed(room, attempt_id="1") == [ids[1]]
    assert _listed(room, attempt_id="1", state=InboxState.CLOSED) == []


# rotating


def test_a_rotated_inbox_drains_and_another_takes_its_place(room: MailRoom) -> None:
    old = room.make(agent("key_1"), attempt_id="a", label="l", metadata={"x": "y"})
    room.clerk.now += MINUTE
    new = room.rotate(old.id, asker=agent("key_1"))

    before = room.get(old.id)
    assert (before.state, before.rotated_to) == (InboxState.DRAINING, new.id)
    assert before.due_at == room.clerk.now + room.postmaster.draining
    assert (new.attempt_id, new.label, new.owner) == ("a", "l", "key_1")
    assert (new.metadata, new.rotated_from) == ({"x": "y"}, old.id)
    assert new.email != old.email
    assert new.active_until == room.clerk.now + LIFETIME * 1000
    assert room.make(attempt_id="a", label="l", metadata={"x": "y"}).id == new.id
    assert room.events()[1][2]["rotated_from"] == old.id


def test_a_repeated_rotation_returns_the_same_and_the_new_one_can_be_rotated(
    room: MailRoom,
) -> None:
    first = room.make(attempt_id="a")
    second = room.rotate(first.id)
    again = room.rotate(first.id)
    third = room.rotate(second.id)

    assert again.id == second.id
    assert room.rotate(first.id).id == second.id
    assert room.make(attempt_id="a").id == third.id
    assert room.count() == 3


def test_two_who_rotate_one_inbox_at_once_get_one_new(room: MailRoom) -> None:
    old = room.make(attempt_id="a")
    now = room.clerk.now

    one, two = interleave(
        room.clerk.place,
        lambda tx: room.postmaster.rotate(tx, ALL, old.id, None, now),
        lambda tx: room.postmaster.rotate(tx, ALL, old.id, None, now),
    )

    assert one.id == two.id
    assert room.count() == 2


def test_who_makes_an_attempt_while_it_is_rotated_gets_the_new_address(room: MailRoom) -> None:
    old = room.make(attempt_id="a")
    now = room.clerk.now

    rotated, (made,) = interleave(
        room.clerk.place,
        lambda tx: room.postmaster.rotate(tx, ALL, old.id, None, now),
        lambda tx: room.postmaster.allocate(tx, ALL, [InboxOptions(attempt_id="a")], now),
    )

    assert made.inbox.id == rotated.id
    assert room.count() == 2


# policies


def change(room: MailRoom, inbox: Inbox, **changes: Any) -> Inbox:
    """Change the policy of an inbox as an operator does."""
    entry = Office(room.clerk).deed(why="test")
    changed: Inbox = room.clerk.run(room.postmaster.change_policy, ALL, inbox.id, changes, entry)
    return changed


def test_a_changed_policy_keeps_what_was_not_named_and_is_audited(room: MailRoom) -> None:
    made = room.make(policy=InboxPolicy(senders=("a.example",), token="t"))
    changed = change(room, made, senders=["B.example"], authenticated=False)
    told = room.clerk.run(audit.for_target, TENANT, made.id)

    assert changed.policy == InboxPolicy(senders=("b.example",), token="t", authenticated=False)
    assert room.get(made.id) == changed
    assert [(each.action, each.detail) for each in told] == [
        ("inbox change-policy", "authenticated, senders")
    ]


def test_of_two_who_change_a_policy_at_once_one_is_told_to_try_again(room: MailRoom) -> None:
    """Each read the policy before the other changed it."""
    made = room.make()
    stored = room.clerk.run(inboxes.stored_policy, ALL, made.id)
    change(room, made, senders=["a.example"])

    with pytest.raises(DatabaseBusy):
        room.clerk.run(inboxes.set_policy, ALL, made.id, InboxPolicy(token="t"), stored=stored)
    assert room.get(made.id).policy == InboxPolicy(senders=("a.example",))


def test_a_policy_is_changed_by_whoever_sees_the_inbox(room: MailRoom) -> None:
    made = room.make(agent("key_1"))
    entry = Office(room.clerk).deed(why="test")

    for stranger in (agent("key_2"), OTHER):
        with pytest.raises(NotFound):
            room.clerk.run(room.postmaster.change_policy, stranger, made.id, {"token": "t"}, entry)
    own = room.clerk.run(
        room.postmaster.change_policy, agent("key_1"), made.id, {"token": "t"}, entry
    )
    assert own.policy == InboxPolicy(token="t")


def test_one_that_has_ended_can_be_rotated_and_stays_ended(room: MailRoom) -> None:
    old = room.make(attempt_id="a", lifetime=0)
    room.close(old.id, 0)
    new = room.rotate(old.id)

    assert room.get(old.id).state is InboxState.CLOSED
    assert (new.state, new.active_until) == (InboxState.ACTIVE, None)


def test_a_rotation_that_draws_a_known_address_draws_again(clerk: Clerk) -> None:
    dice = [b"0123456789", b"0123456789", b"9876543210"]
    room = MailRoom(clerk, random=lambda _: dice.pop(0))
    old = room.make(attempt_id="a")

    assert room.rotate(old.id).email != old.email


def test_no_address_is_made_of_a_domain_that_was_given_away(room: MailRoom) -> None:
    room.add_domain("mine.test")
    old = room.make(attempt_id="a", domain="mine.test")
    room.remove_domain("mine.test")
    room.add_domain("mine.test", "default")

    with pytest.raises(DomainUnknown):
        room.rotate(old.id)
    assert room.get(old.id) == old


# closing


def test_a_closed_inbox_drains_first(room: MailRoom) -> None:
    made = room.make()
    closed = room.close(made.id)

    assert closed.state is InboxState.DRAINING
    assert closed.due_at == room.clerk.now + room.postmaster.draining
    assert room.told() == []


def test_closing_without_draining_ends_it_at_once_and_once(room: MailRoom) -> None:
    made = room.make()
    closed = room.close(made.id, 0)
    room.clerk.now += MINUTE
    again = room.close(made.id, 0)

    assert (closed.state, closed.due_at) == (InboxState.CLOSED, None)
    assert again == closed
    assert room.told() == [("inbox.closed", made.id)]


def test_an_earlier_end_is_not_put_off(room: MailRoom) -> None:
    made = room.make()
    soon = room.close(made.id, MINUTE)
    later = room.close(made.id, 5 * MINUTE)
    sooner = room.close(made.id, 1_000)

    assert later.due_at == soon.due_at == room.clerk.now + MINUTE
    assert sooner.due_at == room.clerk.now + 1_000


def test_two_who_close_at_once_tell_it_once(room: MailRoom) -> None:
    made = room.make()
    now = room.clerk.now

    interleave(
        room.clerk.place,
        lambda tx: room.postmaster.close(tx, ALL, made.id, 0, now),
        lambda tx: room.postmaster.close(tx, ALL, made.id, 0, now),
    )

    assert room.told() == [("inbox.closed", made.id)]


# figures


def test_the_figures_of_an_attempt_are_those_of_all_its_inboxes(room: MailRoom) -> None:
    first = room.make(attempt_id="a")
    room.make(attempt_id="b")
    room.make(attempt_id="a ")
    room.make(attempt_id="a\U0010ffff")
    room.clerk.now += MINUTE
    room.file(first.id, cursor=3, matched=1)
    second = room.rotate(first.id, 0)
    room.clerk.now += MINUTE
    room.file(second.id, cursor=2, matched=2)

    found = room.clerk.run(inboxes.attempt_stats, ALL, single_attempt("a"))

    assert found.states == {InboxState.ACTIVE: 1, InboxState.CLOSED: 1}
    assert (found.messages, found.matched, found.duplicates) == (5, 3, 0)
    assert found.created_at == first.created_at
    assert found.first_message_at == first.created_at + MINUTE
    assert found.last_message_at == first.created_at + 2 * MINUTE
    with pytest.raises(NotFound):
        room.clerk.run(inboxes.attempt_stats, OTHER, single_attempt("a"))


def test_the_figures_of_a_batch_are_those_of_all_attempts_with_its_prefix(room: MailRoom) -> None:
    key = agent("key_1")
    first, second = (room.make(key, attempt_id=f"run-7/{name}") for name in ("a", "ö"))
    room.make(key, attempt_id="run-7/a", label="second")
    for outside in ("run-7", "run-70/a", "run-8/a"):
        room.make(key, attempt_id=outside)
    room.make(agent("key_2"), attempt_id="run-7/theirs")
    room.clerk.now += MINUTE
    room.file(first.id, cursor=3, matched=1)
    room.clerk.now += 2 * MINUTE
    room.file(second.id, cursor=1, matched=1)

    found, counts = room.clerk.run(attempts.batch_stats, key, "run-7/")
    everybody = room.clerk.run(attempts.batch_stats, ALL, "run-7/")[1]

    assert (counts.attempts, everybody.attempts) == (2, 3)
    assert (counts.resends, counts.actions) == (0, {})
    assert (found.attempt_id, found.states) == ("run-7/", {InboxState.ACTIVE: 3})
    assert (found.messages, found.matched, found.reached) == (4, 2, 2)
    assert (found.average_wait, found.longest_wait) == (2 * MINUTE, 3 * MINUTE)
    for asker, prefix in ((key, "run-9/"), (OTHER, "run-7/"), (agent("key_3"), "run-7/")):
        with pytest.raises(NotFound):
            room.clerk.run(attempts.batch_stats, asker, prefix)


def _listed(room: MailRoom, asker: Requester = ALL, **rest: Any) -> list[str]:
    found = room.clerk.run(inboxes.newest, asker, **rest)
    return [each.id for each in found]
