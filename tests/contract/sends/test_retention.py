"""Batches and retention: asked for again as a whole; words go after their time, keys stay."""

import hashlib

import pytest

from oncebox.core import ids
from oncebox.errors import StateConflict
from oncebox.ledger import maintenance
from oncebox.ledger.sends import submission
from oncebox.ledger.sends.outbox import retention_period
from oncebox.model.sends.send import AnswerStatus, NewSend, Retention, SendState
from oncebox.model.sends.transports import SendAccepted
from tests.support.clerk import DAY, HOUR, TENANT, Clerk
from tests.support.mailer import BOUNCED, SILENCE, TAKEN, TO, Mailer

S = SendState


@pytest.fixture
def mailer(clerk: Clerk) -> Mailer:
    return Mailer(clerk)


# batches


def _batch(
    mailer: Mailer, *sends: NewSend, key: str = "batch", owner: str | None = None
) -> submission.IntendedBatch:
    digest = hashlib.sha256(key.encode()).digest()
    new = submission.NewBatch(id=ids.new("bat"), tenant=TENANT, key=digest, owner=owner)
    return mailer.clerk.run(submission.store_batch, new, sends, mailer.clerk.now)


def _sends_of_batch(mailer: Mailer) -> list[tuple[str, str, str]]:
    return [
        (str(id_), str(message_id), str(state))
        for id_, message_id, state in mailer.rows(
            "SELECT send.id, send.message_id, send.state FROM oncebox_batch_sends AS member "
            "JOIN oncebox_sends AS send ON send.id = member.send_id ORDER BY member.place"
        )
    ]


def test_a_batch_that_is_asked_for_again_is_the_same_batch(mailer: Mailer) -> None:
    first = _batch(mailer, *(mailer.new(key) for key in "abc"))
    again = _batch(mailer, *(mailer.new(key) for key in "abc"))

    assert again.batch == first.batch
    for batch, created in ((first, True), (again, False)):
        assert [each.created for each in batch.answers] == [created] * 3
    assert [state for _, _, state in _sends_of_batch(mailer)] == [S.PENDING] * 3
    assert len(mailer.claim()) == 3


def test_the_key_of_a_batch_is_refused_for_other_sends(mailer: Mailer) -> None:
    first = _batch(mailer, *(mailer.new(key) for key in "ab"))
    for keys in ("ba", "abc", "a"):
        other = _batch(mailer, *(mailer.new(key) for key in keys))
        assert (other.conflict, other.answers, other.batch) == (True, (), first.batch)

    assert len(mailer.claim()) == 2


def test_a_batch_takes_in_what_was_asked_for_before(mailer: Mailer) -> None:
    known = mailer.intend("b").send.id
    _batch(mailer, *(mailer.new(key) for key in "abc"))
    listed = _sends_of_batch(mailer)

    assert [message_id for _, message_id, _ in listed] == [f"<{key}@example.com>" for key in "abc"]
    assert listed[1][0] == known


def test_one_refused_send_of_a_batch_stops_no_other(mailer: Mailer) -> None:
    mailer.intend("b")
    told = _batch(mailer, mailer.new("a"), mailer.new("b", to=("eve@example.org",)))

    assert [each.status for each in told.answers] == [AnswerStatus.IN_FLIGHT, AnswerStatus.CONFLICT]


# retention


def test_each_class_has_its_time() -> None:
    assert retention_period(Retention.TRANSACTIONAL) == 7 * DAY
    assert retention_period(Retention.NOTIFICATION) == DAY
    assert retention_period(Retention.SCHEDULED, HOUR) == 2 * HOUR


def _empty(mailer: Mailer) -> int:
    return mailer.clerk.run(maintenance.empty_sends, mailer.clerk.now)


def _bodies(mailer: Mailer) -> int:
    return len(mailer.rows("SELECT id FROM oncebox_send_bodies"))


def test_what_a_send_says_goes_after_its_time_and_its_key_stays(mailer: Mailer) -> None:
    send = mailer.start(retention=Retention.NOTIFICATION, kept_for=DAY)
    mailer.say(send, TAKEN)
    mailer.clerk.now += DAY - 1
    assert (_empty(mailer), _bodies(mailer)) == (0, 1)
    mailer.clerk.now += 1
    assert (_empty(mailer), _bodies(mailer)) == (1, 0)
    assert _empty(mailer) == 0

    told = mailer.intend(text="other")
    assert (told.status, told.drift) == (AnswerStatus.DUPLICATE, True)
    assert (told.send.message_id, told.send.provider_id) == (send.message_id, "p-1")
    assert mailer.intend(to=("eve@example.org",)).status is AnswerStatus.CONFLICT


@pytest.mark.parametrize("steps", range(4))
def test_a_running_or_unknown_send_is_never_deleted(mailer: Mailer, steps: int) -> None:
    mailer.intend(kept_for=1)
    if steps > 0:
        send = mailer.claim_one()
    if steps > 1:
        mailer.begin(send)
    if steps > 2:
        mailer.say(send, SILENCE)
    mailer.clerk.now += 365 * DAY

    assert _empty(mailer) == 0
    assert mailer.clerk.run(maintenance.forget_sends, mailer.clerk.now) == 0
    assert _bodies(mailer) == 1


def test_a_tombstone_that_was_not_sent_is_armed_again_by_a_new_payload(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.say(send, BOUNCED)
    mailer.clerk.now += 7 * DAY
    assert _empty(mailer) == 1
    with pytest.raises(StateConflict):
        mailer.resend(send.id)
    told = mailer.intend(text="second")

    assert (told.rearmed, told.send.purged_at) == (True, None)
    assert len(mailer.claim()) == 1


def test_what_is_armed_again_in_time_keeps_its_words(mailer: Mailer) -> None:
    mailer.cancel(mailer.intend().send.id)
    mailer.intend()
    mailer.clerk.now += 30 * DAY

    assert (_empty(mailer), _bodies(mailer)) == (0, 1)


def test_late_proof_of_a_tombstone_is_recorded(mailer: Mailer) -> None:
    send = mailer.in_doubt()
    mailer.resolve(send.id, sent=False)
    mailer.clerk.now += 7 * DAY
    assert _empty(mailer) == 1

    assert mailer.say(send, SendAccepted(provider_id="p-9"))
    assert mailer.intend().status is AnswerStatus.DUPLICATE


def test_a_forgotten_key_is_new(mailer: Mailer) -> None:
    _batch(mailer, mailer.new(), mailer.new("other"))
    send = next(each.send for each in mailer.claim() if each.send.message_id.startswith("<key"))
    mailer.begin(send)
    mailer.say(send, TAKEN)
    ended = mailer.clerk.now
    assert mailer.clerk.run(maintenance.forget_sends, ended) == 0, "its words come first"
    mailer.clerk.now += 7 * DAY
    _empty(mailer)
    assert mailer.clerk.run(maintenance.forget_sends, ended - 1) == 0
    assert mailer.clerk.run(maintenance.forget_sends, ended) == 1

    assert len(_sends_of_batch(mailer)) == 1
    for table in ("oncebox_send_tries", "oncebox_sends"):
        assert send.id not in repr(mailer.rows(f"SELECT * FROM {table}"))  # noqa: S608 - our names
    assert len(mailer.rows("SELECT mark FROM oncebox_send_recipients")) == 1
    assert mailer.intend().created


def test_a_batch_goes_with_its_last_send(mailer: Mailer) -> None:
    _batch(mailer, mailer.new(to=(TO,)))
    send = mailer.claim_one()
    mailer.begin(send)
    mailer.say(send, TAKEN)
    mailer.clerk.now += 7 * DAY
    _empty(mailer)
    mailer.clerk.run(maintenance.forget_sends, mailer.clerk.now)

    assert mailer.rows("SELECT id FROM oncebox_batches") == []
