"""Leases: of the workers of one claim one has the code; and an attempt has each code once."""

import asyncio

import pytest

from oncebox.core.metrics import Telemetry
from oncebox.errors import NotFound, StateConflict
from oncebox.errors.mail import AlreadyClaimed
from oncebox.ledger.artifacts.claims import ClaimResolver, Grants
from oncebox.ledger.attempts import actions
from oncebox.ledger.attempts.actions import ActionRef, ActionReport, BeginAction
from oncebox.model.deliveries.effects import Safety
from oncebox.model.inboxes.artifact import ArtifactState, ClaimDenied, ClaimGranted
from oncebox.model.inboxes.received_mail import ArtifactKind
from tests.support.clerk import Clerk
from tests.support.finds import AGENT, OTHER, Finds, code, judge_link
from tests.support.letters import FILE
from tests.support.round_trips import counted

LEASE = 30_000
WORKERS = ("w1", "w2", "w3", "w4")


@pytest.fixture
def finds(clerk: Clerk) -> Finds:
    """A ledger with one inbox, and three of one attempt."""
    finds = Finds(clerk)
    for inbox in ("inb_a", "inb_b", "inb_c"):
        finds.room.add_inbox(inbox, attempt="signup")
    return finds


def told(*outcomes: object) -> list[str]:
    """Return of each whether it was granted, or why not."""
    return [
        "granted" if isinstance(each, ClaimGranted) else str(getattr(each, "why", None))
        for each in outcomes
    ]


# one worker at a time


def test_of_four_workers_of_one_claim_one_is_granted_in_one_commit(finds: Finds) -> None:
    finds.file(code("481920"))
    outcomes = finds.claim(*(finds.wish(worker=each) for each in WORKERS))
    (stored,) = finds.all()

    assert told(*outcomes) == ["granted", "in_flight", "in_flight", "in_flight"]
    assert stored.lease_until == finds.clerk.now + LEASE
    assert [each.artifact for each in outcomes[1:] if isinstance(each, ClaimDenied)] == [stored] * 3


def test_a_worker_that_asks_again_reads_its_own_lease(finds: Finds) -> None:
    finds.file(code("481920"))
    finds.claim(finds.wish(worker="w1"))
    finds.clerk.now += LEASE - 1
    first, rival = finds.claim(finds.wish(worker="w1"), finds.wish(worker="w2"))

    assert isinstance(first, ClaimGranted)
    assert (first.value.value, first.repeated, first.reread) == ("481920", True, True)
    assert told(rival) == ["in_flight"]


def test_after_a_crash_the_lease_ends_and_the_next_worker_reads_it(finds: Finds) -> None:
    finds.file(code("481920"))
    finds.claim(finds.wish(worker="dead"))
    finds.clerk.now += LEASE
    heir, late, dead = finds.claim(*(finds.wish(worker=each) for each in ("w2", "w3", "dead")))
    (stored,) = finds.all()

    assert isinstance(heir, ClaimGranted)
    assert (heir.value.value, heir.repeated, heir.reread) == ("481920", True, False)
    assert told(late, dead) == ["in_flight", "in_flight"]
    assert stored.claimed_at == finds.clerk.now - LEASE


def test_what_was_used_is_granted_to_no_worker_any_more(finds: Finds) -> None:
    finds.file(code("481920"))
    finds.claim(finds.wish(worker="w1"))
    (artifact,) = finds.all()
    used = finds.use(artifact.id)
    finds.clerk.now += 10 * LEASE
    outcomes = finds.claim(
        finds.wish(worker="w1"), finds.wish(worker="w2"), finds.wish(claim_key="another")
    )

    assert used.used_at == finds.clerk.now - 10 * LEASE
    assert told(*outcomes) == ["used", "used", "already_claimed"]
    assert finds.use(artifact.id) == used


def test_only_the_key_that_claimed_it_can_say_that_it_was_used(finds: Finds) -> None:
    finds.file(code("481920"))
    (artifact,) = finds.all()
    with pytest.raises(StateConflict):
        finds.use(artifact.id)
    finds.claim(finds.wish(worker="w1"))
    with pytest.raises(AlreadyClaimed):
        finds.use(artifact.id, OTHER)
    with pytest.raises(NotFound):
        finds.use("art_none")

    assert finds.all()[0].used_at is None


def test_what_a_person_released_can_be_claimed_by_any_worker(finds: Finds) -> None:
    finds.file(code("481920"))
    finds.claim(finds.wish(worker="w1"))
    finds.use(finds.all()[0].id)
    released = finds.release(finds.all()[0].id)
    (outcome,) = finds.claim(finds.wish(worker="w2", claim_key="another"))

    assert (released.used_at, released.lease_until) == (None, None)
    assert told(outcome) == ["granted"]


def test_a_newer_code_is_granted_although_the_older_was_used(finds: Finds) -> None:
    finds.file(code("111111"))
    finds.claim(finds.wish(worker="w1"))
    finds.use(finds.all()[0].id)
    finds.clerk.now += 1000
    finds.file(code("222222"))
    (outcome,) = finds.claim(finds.wish(worker="w2"))

    assert isinstance(outcome, ClaimGranted)
    assert outcome.value.value == "222222"


def test_an_action_that_is_done_says_what_it_used(finds: Finds) -> None:
    finds.file(code("481920"))
    finds.claim(finds.wish(worker="w1"))
    (artifact,) = finds.all()
    ref, now = ActionRef(finds.asker(), "att_inb_1", "verify"), finds.clerk.now
    begin = BeginAction(ref=ref, safe=Safety.ONCE, fingerprint=b"1", lease=LEASE, window=LEASE)
    (begun,) = finds.clerk.run(actions.begin, [begin], now)
    assert begun is not None
    done = ActionReport(ref=ref, fence=begun.action.fence, uses=(artifact.id, "art_none"))
    finds.clerk.run(actions.finish, [done], now)
    (outcome,) = finds.claim(finds.wish(worker="w2"))

    assert finds.all()[0].used_at == now
    assert told(outcome) == ["used"]


def test_a_lease_takes_no_further_round_trip(finds: Finds) -> None:
    finds.file(code("481920"))
    claim = counted(finds.granter.claim, [finds.wish(worker="w1")], finds.clerk.now)

    assert finds.clerk.run(claim) == 3


async def test_workers_of_two_processes_do_not_both_get_it(finds: Finds) -> None:
    finds.file(code("481920"))
    databases = [finds.clerk.place.open() for _ in range(2)]
    try:
        each_process = [
            Grants(each, ClaimResolver(finds.strongbox, judge_link), Telemetry())
            for each in databases
        ]
        outcomes = await asyncio.gather(
            *(each.request(finds.wish(worker=f"{n}-{id(each)}"))
              for n in range(20) for each in each_process)
        )  # fmt: skip
    finally:
        for each in databases:
            await each.close()

    assert sorted(told(*outcomes)) == ["granted", *["in_flight"] * 39]


# one per attempt


def test_the_same_code_in_two_inboxes_of_an_attempt_is_granted_once(finds: Finds) -> None:
    finds.file(code("481920"), inbox="inb_a")
    finds.clerk.now += 1000
    finds.file(code("481920"), inbox="inb_b")
    first, other, worker = finds.claim(
        finds.wish(inbox="inb_a", claim_key="one", worker="w1"),
        finds.wish(inbox="inb_b", claim_key="two", worker="w2"),
        finds.wish(inbox="inb_b", claim_key="one", worker="w3"),
    )
    (in_a,), (in_b,) = finds.all("inb_a"), finds.all("inb_b")

    assert told(first, other, worker) == ["granted", "already_claimed", "in_flight"]
    assert (in_a.same_as, in_b.same_as) == (None, in_a.id)
    assert (in_b.state, in_b.claimed_by) == (ArtifactState.CLAIMED, AGENT)


def test_the_same_code_is_granted_once_whichever_inbox_is_asked_first(finds: Finds) -> None:
    for inbox in ("inb_a", "inb_b", "inb_c"):
        finds.file(code("481920"), inbox=inbox)
        finds.clerk.now += 1000
    wishes = [
        finds.wish(inbox=inbox, claim_key=inbox, worker=inbox)
        for inbox in ("inb_c", "inb_b", "inb_a")
    ]
    outcomes = finds.claim(*wishes)
    ids = [finds.all(inbox)[0].id for inbox in ("inb_a", "inb_b", "inb_c")]

    assert told(*outcomes) == ["granted", "already_claimed", "already_claimed"]
    assert told(*finds.claim(*(finds.ask(each, OTHER) for each in ids))) == ["already_claimed"] * 3


def test_the_same_code_in_one_commit_for_two_inboxes_is_one(finds: Finds) -> None:
    letters = [finds.filing(code("481920"), inbox) for inbox in ("inb_a", "inb_b")]
    finds.clerk.run(FILE, letters, finds.clerk.now)
    outcomes = finds.claim(*(finds.wish(inbox=each, claim_key=each) for each in ("inb_a", "inb_b")))

    assert sorted(told(*outcomes)) == ["already_claimed", "granted"]


def test_what_was_used_in_one_inbox_is_used_in_all_of_the_attempt(finds: Finds) -> None:
    finds.file(code("481920"), inbox="inb_a")
    finds.file(code("481920"), inbox="inb_b")
    finds.claim(finds.wish(inbox="inb_b", worker="w1"))
    finds.use(finds.all("inb_b")[0].id)
    outcomes = finds.claim(*(finds.wish(inbox=each, worker="w2") for each in ("inb_a", "inb_b")))

    assert told(*outcomes) == ["used", "used"]


def test_a_release_in_one_inbox_is_one_in_all_of_the_attempt(finds: Finds) -> None:
    finds.file(code("481920"), inbox="inb_a")
    finds.file(code("481920"), inbox="inb_b")
    finds.claim(finds.wish(inbox="inb_a", worker="w1"))
    released = finds.release(finds.all("inb_b")[0].id)
    (outcome,) = finds.claim(finds.wish(inbox="inb_b", claim_key="another"))

    assert released.state is ArtifactState.AVAILABLE
    assert told(outcome) == ["granted"]


def test_a_code_that_was_superseded_in_its_inbox_is_not_granted_there(finds: Finds) -> None:
    finds.file(code("481920"), inbox="inb_a")
    finds.file(code("481920"), inbox="inb_b")
    finds.clerk.now += 1000
    finds.file(code("222222"), inbox="inb_b")
    old = finds.all("inb_b")[0]
    by_id, meant, in_a = finds.claim(
        finds.ask(old.id), finds.wish(inbox="inb_b"), finds.wish(inbox="inb_a")
    )

    assert told(by_id, meant, in_a) == ["superseded", "granted", "granted"]


def test_the_lease_of_a_code_in_another_inbox_ends_too(finds: Finds) -> None:
    finds.file(code("481920"), inbox="inb_a")
    finds.file(code("481920"), inbox="inb_b")
    finds.claim(finds.wish(inbox="inb_a", worker="dead"))
    finds.clerk.now += LEASE
    heir, late = finds.claim(
        finds.wish(inbox="inb_b", worker="w2"), finds.wish(inbox="inb_a", worker="w3")
    )

    assert isinstance(heir, ClaimGranted)
    assert (heir.value.value, heir.repeated) == ("481920", True)
    assert told(late) == ["in_flight"]


def test_without_an_attempt_each_inbox_has_its_own(finds: Finds) -> None:
    for inbox in ("inb_x", "inb_y"):
        finds.room.add_inbox(inbox, attempt=None)
        finds.file(code("481920"), inbox=inbox)
    outcomes = finds.claim(*(finds.wish(inbox=each) for each in ("inb_x", "inb_y")))

    assert told(*outcomes) == ["granted", "granted"]


def test_a_link_and_a_code_with_the_same_text_are_two(finds: Finds) -> None:
    strongbox = finds.strongbox
    marks = {strongbox.unscoped_fingerprint("t", kind, "481920") for kind in ArtifactKind}

    assert len(marks) == len(ArtifactKind)


def test_the_database_refuses_a_second_artifact_of_an_attempt_with_the_same_value(
    finds: Finds,
) -> None:
    """The unique index decides, not the look before."""
    finds.file(code("481920"), inbox="inb_a")
    finds.file(code("481920"), inbox="inb_b")

    with pytest.raises(Exception, match=r"(?i)unique|refused"):
        finds.sql("UPDATE oncebox_artifacts SET same_as = NULL RETURNING id")


def test_a_code_of_an_older_version_stays_one_per_inbox(finds: Finds) -> None:
    finds.file(code("481920"), inbox="inb_a")
    finds.sql("UPDATE oncebox_artifacts SET attempt_mark = NULL RETURNING id")
    finds.file(code("481920"), inbox="inb_a")
    finds.file(code("481920"), inbox="inb_b")

    assert [each.duplicates for each in finds.all("inb_a")] == [1]
    assert [each.same_as for each in finds.all("inb_b")] == [None]
