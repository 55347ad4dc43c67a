"""Claims: one artifact, one grant; the same claim reads it again, nobody else does."""

import asyncio
from typing import Any

import msgspec
import pytest

from oncebox.core.metrics import Telemetry
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.artifacts.claims import ClaimResolver as Granter
from oncebox.ledger.artifacts.claims import Grants
from oncebox.model.inboxes.artifact import (
    Artifact,
    ArtifactClaimant,
    ArtifactClaimRequest,
    ArtifactState,
    ArtifactValue,
    ClaimConflict,
    ClaimDenied,
    ClaimGranted,
)
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.received_mail import ArtifactKind
from tests.support.clerk import TENANT, Clerk
from tests.support.finds import AGENT, OTHER, Finds, Letter, code, judge_link, link

URL = "https://app.shop.example/verify?token=s3cret"


@pytest.fixture
def finds(clerk: Clerk) -> Finds:
    """A ledger with one inbox."""
    return Finds(clerk)


def granted(outcome: object) -> ClaimGranted:
    """Return a grant that must be one."""
    assert isinstance(outcome, ClaimGranted), outcome
    return outcome


def denied(outcome: object) -> str:
    """Return why something that must be denied is denied."""
    assert isinstance(outcome, ClaimDenied), outcome
    return outcome.why


def test_a_claim_gets_what_the_artifact_says(finds: Finds) -> None:
    finds.file(code("481920"))
    (artifact,) = finds.all()
    (outcome,) = finds.claim(finds.ask(artifact.id))
    (stored,) = finds.all()

    assert (granted(outcome).value.value, granted(outcome).repeated) == ("481920", False)
    assert granted(outcome).artifact == stored
    assert (stored.state, stored.claimed_by, stored.claimed_at) == (
        ArtifactState.CLAIMED,
        AGENT,
        finds.clerk.now,
    )


def test_the_same_claim_reads_it_again(finds: Finds) -> None:
    finds.file(code("481920"))
    (artifact,) = finds.all()
    finds.claim(finds.ask(artifact.id))
    finds.clerk.now += 1000
    (again,) = finds.claim(finds.ask(artifact.id))

    assert (granted(again).value.value, granted(again).repeated) == ("481920", True)
    assert finds.all()[0].claimed_at == finds.clerk.now - 1000


@pytest.mark.parametrize(
    ("key", "claim_key"), [(OTHER, None), (AGENT, "another"), (OTHER, "att_inb_1")]
)
def test_another_claim_does_not_get_it(finds: Finds, key: str, claim_key: str | None) -> None:
    """The claim key alone lets nobody in: it is bound to the API key."""
    finds.file(code("481920"))
    (artifact,) = finds.all()
    finds.claim(finds.ask(artifact.id))
    (outcome,) = finds.claim(finds.ask(artifact.id, key, claim_key))

    assert denied(outcome) == "already_claimed"


def test_without_a_claim_key_the_attempt_claims(finds: Finds) -> None:
    finds.file(code("481920"))
    (artifact,) = finds.all()
    finds.claim(finds.ask(artifact.id))
    (again,) = finds.claim(finds.ask(artifact.id, AGENT, "att_inb_1"))

    assert granted(again).repeated


def test_of_many_claims_in_one_commit_one_is_granted(finds: Finds) -> None:
    finds.file(code("481920"))
    (artifact,) = finds.all()
    asks = [finds.ask(artifact.id, AGENT, f"claim {number % 8}") for number in range(40)]
    outcomes = finds.claim(*asks)

    assert [isinstance(each, ClaimGranted) for each in outcomes] == [n % 8 == 0 for n in range(40)]
    assert [granted(each).repeated for each in outcomes[::8]] == [False, *[True] * 4]


def test_claims_of_many_artifacts_are_answered_in_order(finds: Finds) -> None:
    for number in range(5):
        finds.file(code(f"{number}" * 6, sender=f"s{number}@shop.example"))
    asks = [finds.ask(each.id) for each in reversed(finds.all())]
    values = [granted(each).value.value[0] for each in finds.claim(*asks)]

    assert values == ["4", "3", "2", "1", "0"]


def test_what_was_superseded_is_not_granted(finds: Finds) -> None:
    finds.file(code("111111"))
    finds.clerk.now += 1000
    finds.file(code("222222"))
    old, new = finds.all()
    first, second = finds.claim(finds.ask(old.id), finds.ask(new.id))

    assert denied(first) == "superseded"
    assert granted(second).value.value == "222222"


def test_a_claimer_reads_it_again_after_it_was_superseded(finds: Finds) -> None:
    finds.file(code("111111"))
    (old,) = finds.all()
    finds.claim(finds.ask(old.id))
    finds.clerk.now += 1000
    finds.file(code("222222"))
    (again,) = finds.claim(finds.ask(old.id))

    assert granted(again).value.value == "111111"
    assert granted(again).artifact.superseded_by == finds.all()[1].id
    assert granted(again).artifact.state is ArtifactState.CLAIMED


def test_what_does_not_match_is_not_granted(finds: Finds) -> None:
    finds.file(code("111111", mismatch="sender_not_allowed"))
    (outcome,) = finds.claim(finds.ask(finds.all()[0].id))

    assert denied(outcome) == "unmatched"


def test_missing_and_foreign_look_the_same(finds: Finds) -> None:
    finds.room.add_inbox("inb_own", owner=AGENT)
    finds.file(code("111111"), inbox="inb_own")
    (artifact,) = finds.all("inb_own")
    agent = ArtifactClaimant(tenant=TENANT, key_id=OTHER, owner=OTHER)
    stranger = ArtifactClaimant(tenant="other", key_id=AGENT, owner=None)
    asks = [
        finds.ask("art_none"),
        ArtifactClaimRequest(claimant=agent, artifact_id=artifact.id),
        ArtifactClaimRequest(claimant=stranger, artifact_id=artifact.id),
        *(
            msgspec.structs.replace(finds.wish(inbox="inb_own"), claimant=who)
            for who in (agent, stranger)
        ),
        finds.wish(inbox="inb_none"),
    ]

    assert finds.claim(*asks) == [ClaimDenied(why="not_found")] * 6


# links


def test_a_link_is_granted_as_it_was_judged_and_in_parts(finds: Finds) -> None:
    finds.room.add_inbox("inb_2", policy=InboxPolicy(link_hosts=("app.shop.example",)))
    finds.file(link(URL), inbox="inb_2")
    (outcome,) = finds.claim(finds.ask(finds.all("inb_2")[0].id))

    assert granted(outcome).value.value == URL
    assert (granted(outcome).link.host, granted(outcome).link.token) == (  # type: ignore[union-attr]
        "app.shop.example",
        "s3cret",
    )


def test_a_link_that_the_policy_refuses_stays_available(finds: Finds) -> None:
    finds.file(link(URL))
    (artifact,) = finds.all()
    (outcome,) = finds.claim(finds.ask(artifact.id))

    assert isinstance(outcome, ClaimDenied)
    assert (outcome.why, outcome.reason, outcome.host) == (
        "link_refused",
        "host_not_allowed",
        "sender",
    )
    assert finds.all() == [artifact]


def test_who_was_granted_a_link_by_its_host_reads_it_again_by_its_id(finds: Finds) -> None:
    """The inbox names no host, so the one that was asked for was allowed; the grant stays."""
    finds.file(link(URL))
    (artifact,) = finds.all()
    by_host, by_id = finds.wish(ArtifactKind.LINK, host="app.shop.example"), finds.ask(artifact.id)
    (first,) = finds.claim(by_host)
    again, whichever = finds.claim(by_id, finds.wish(ArtifactKind.LINK))
    (stranger,) = finds.claim(finds.ask(artifact.id, OTHER))

    assert not granted(first).repeated
    assert [granted(each).value.value for each in (again, whichever)] == [URL, URL]
    assert denied(stranger) == "already_claimed"


def test_links_are_opened_once_for_all_who_name_a_host(
    finds: Finds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand who wait cost as many openings as there are links."""
    for number in range(5):
        finds.file(link(f"https://h{number}.shop.example/x", sender=f"s{number}@shop.example"))
    opened, open_ = [], finds.strongbox.decrypt

    def counted(tenant: str, id_: str, sealed: bytes) -> ArtifactValue:
        opened.append(id_)
        return open_(tenant, id_, sealed)

    monkeypatch.setattr(finds.strongbox, "decrypt", counted)
    asks = [finds.wish(ArtifactKind.LINK, host="none.example", claim_key=str(n)) for n in range(50)]

    assert finds.claim(*asks) == [None] * 50
    assert len(opened) == 5


# what cannot be opened


def damaged(finds: Finds, letter: Letter) -> str:
    """File something and damage what it says."""
    before = {each.id for each in finds.all()}
    finds.file(letter)
    (id_,) = {each.id for each in finds.all()} - before
    another = f"SELECT sealed FROM oncebox_artifacts AS other WHERE other.id <> '{id_}' LIMIT 1"  # noqa: S608
    finds.sql(
        f"UPDATE oncebox_artifacts SET sealed = ({another}) WHERE id = '{id_}' RETURNING id"  # noqa: S608
    )
    return id_


def test_an_artifact_that_cannot_be_opened_is_the_trouble_of_its_claim_alone(finds: Finds) -> None:
    finds.file(code("111111"))
    broken = damaged(finds, code("222222", sender="other@shop.example"))
    whole = next(each for each in finds.all() if each.id != broken)
    first, second = finds.claim(finds.ask(broken), finds.ask(whole.id))

    assert denied(first) == "not_opened"
    assert granted(second).value.value == "111111"
    assert next(each for each in finds.all() if each.id == broken).state is ArtifactState.AVAILABLE


def test_a_link_that_cannot_be_opened_keeps_no_other_from_its_host(finds: Finds) -> None:
    finds.file(link(URL))
    damaged(finds, link("https://app.shop.example/other", sender="other@shop.example"))
    (outcome,) = finds.claim(finds.wish(ArtifactKind.LINK, host="app.shop.example"))

    assert granted(outcome).value.value == URL


# wishes


def test_a_wish_is_granted_what_is_meant(finds: Finds) -> None:
    nothing = finds.claim(finds.wish())
    finds.file(code("481920"))
    (outcome,) = finds.claim(finds.wish())
    (again,) = finds.claim(finds.wish())

    assert nothing == [None]
    assert (granted(outcome).value.value, granted(outcome).repeated) == ("481920", False)
    assert granted(again).repeated


def test_a_wish_of_another_claim_hears_that_it_is_claimed(finds: Finds) -> None:
    finds.file(code("481920"))
    outcomes = finds.claim(finds.wish(), finds.wish(claim_key="another"))

    assert granted(outcomes[0]).repeated is False
    assert denied(outcomes[1]) == "already_claimed"


def test_after_a_resend_the_same_claim_gets_the_new_one(finds: Finds) -> None:
    finds.file(code("111111"))
    finds.claim(finds.wish())
    finds.clerk.now += 1000
    finds.file(code("222222"))
    (outcome,) = finds.claim(finds.wish())

    assert (granted(outcome).value.value, granted(outcome).repeated) == ("222222", False)


def test_who_asks_for_what_comes_later_does_not_get_the_old_one_again(finds: Finds) -> None:
    finds.file(code("111111"))
    (first,) = finds.claim(finds.wish())
    after = granted(first).artifact.sequence
    waiting = finds.claim(finds.wish(after=after))
    finds.clerk.now += 1000
    finds.file(code("111111"))
    (outcome,) = finds.claim(finds.wish(after=after))

    assert waiting == [None]
    assert (granted(outcome).value.value, granted(outcome).repeated) == ("111111", True)


def test_a_crash_costs_nothing_even_if_another_sender_wrote_meanwhile(finds: Finds) -> None:
    finds.file(code("111111"))
    finds.claim(finds.wish())
    finds.file(code("222222", sender="no-reply@other.example"))
    mine, others = finds.claim(finds.wish(), finds.wish(claim_key="another"))

    assert granted(mine).value.value == "111111"
    assert isinstance(others, ClaimConflict)
    assert others.why == "senders_differ"


def test_a_conflict_is_solved_by_naming_the_messages(finds: Finds) -> None:
    shop, other = finds.file(code("111111"), code("222222", sender="a@other.example"))
    (reset,) = finds.file(code("333333", sender="a@other.example", subject="Reset your password"))
    wishes = [
        finds.wish(),
        finds.wish(messages=frozenset({shop.message_id}), claim_key="1"),
        finds.wish(messages=frozenset({other.message_id, reset.message_id})),
        finds.wish(messages=frozenset({reset.message_id}), claim_key="2"),
        finds.wish(messages=frozenset()),
    ]
    all_, by_sender, both, by_purpose, nobody = finds.claim(*wishes)

    assert isinstance(all_, ClaimConflict)
    assert granted(by_sender).value.value == "111111"
    assert isinstance(both, ClaimConflict)
    assert both.why == "purposes_differ"
    assert granted(by_purpose).value.value == "333333"
    assert nobody is None


# release


def test_a_released_artifact_can_be_claimed_again_and_the_audit_says_why(finds: Finds) -> None:
    finds.file(code("481920"))
    (artifact,) = finds.all()
    finds.claim(finds.ask(artifact.id))
    released = finds.release(artifact.id)
    first, second = finds.claim(finds.ask(artifact.id, OTHER), finds.ask(artifact.id))
    (deed,) = finds.clerk.run(audit.for_target, TENANT, artifact.id)

    assert (released.state, released.releases) == (ArtifactState.AVAILABLE, 1)
    assert (deed.action, deed.why, deed.detail) == (
        "artifact.release",
        "agent died",
        f"claimed by {AGENT}",
    )
    assert granted(first).value.value == "481920"
    assert denied(second) == "already_claimed"


def test_a_released_artifact_stays_superseded(finds: Finds) -> None:
    finds.file(code("111111"))
    (old,) = finds.all()
    finds.claim(finds.ask(old.id))
    finds.clerk.now += 1000
    finds.file(code("222222"))

    assert finds.release(old.id).state is ArtifactState.SUPERSEDED


def test_what_nobody_has_claimed_cannot_be_released(finds: Finds) -> None:
    finds.file(code("481920"))
    with pytest.raises(StateConflict):
        finds.release(finds.all()[0].id)
    with pytest.raises(NotFound):
        finds.release("art_none")

    assert finds.clerk.run(audit.for_target, TENANT, finds.all()[0].id) == []


# whoever names a domain


def test_all_addresses_of_a_domain_that_is_named_are_one_sender(finds: Finds) -> None:
    """A sender that writes under another address every time is no conflict then."""
    finds.file(code("111111", sender="security@shop.example"))
    finds.clerk.now += 1000
    finds.file(code("222222", sender="no-reply@shop.example"))
    contested, outcome = finds.claim(finds.wish(), finds.wish(by_domain=True))

    assert isinstance(contested, ClaimConflict)
    assert granted(outcome).value.value == "222222"


def test_two_domains_stay_two_senders_whoever_names_one(finds: Finds) -> None:
    finds.file(code("111111", sender="no-reply@a.shop.example"))
    finds.clerk.now += 1000
    finds.file(code("222222", sender="no-reply@b.shop.example"))
    (outcome,) = finds.claim(finds.wish(by_domain=True))

    assert isinstance(outcome, ClaimConflict)


def test_an_older_code_that_came_late_is_not_the_newest_of_its_domain(finds: Finds) -> None:
    """Another address has signed no date, so only arrivals are left, but what is known counts."""
    finds.file(code("111111", sender="security@shop.example"))
    finds.clerk.now += 1000
    finds.file(code("222222", sender="no-reply@shop.example", signed_at=60_000))
    finds.clerk.now += 1000
    finds.file(code("333333", sender="no-reply@shop.example", signed_at=1_000))
    (outcome,) = finds.claim(finds.wish(by_domain=True))

    assert granted(outcome).value.value == "222222"


def test_who_has_claimed_a_code_of_a_domain_reads_it_again(finds: Finds) -> None:
    finds.file(code("111111", sender="security@shop.example"))
    finds.claim(finds.wish(by_domain=True))
    (again,) = finds.claim(finds.wish(by_domain=True))

    assert (granted(again).value.value, granted(again).repeated) == ("111111", True)


# what a newer message that does not fit leaves in its place


def two(finds: Finds) -> tuple[Artifact, Artifact]:
    """File two codes of one sender, the second of which takes the place of the first."""
    finds.file(code("111111"))
    finds.clerk.now += 1000
    finds.file(code("222222"))
    old, new = finds.all()
    return old, new


def test_a_wish_that_a_newer_message_does_not_fit_is_granted_the_older(finds: Finds) -> None:
    old, new = two(finds)
    wish: dict[str, Any] = {
        "messages": frozenset({old.message_id}),
        "excluded_messages": frozenset({new.message_id}),
    }
    first, second = finds.claim(finds.wish(**wish), finds.wish(**wish, claim_key="another"))

    assert granted(first).value.value == "111111"
    assert denied(second) == "already_claimed"
    assert [each.state for each in finds.all()] == ["claimed", "available"]
    assert finds.release(old.id).state is ArtifactState.SUPERSEDED


def test_a_newer_message_that_was_not_looked_at_may_fit(finds: Finds) -> None:
    """It came after the look, so the older is not granted before the next one."""
    old, new = two(finds)
    messages = frozenset({old.message_id})
    blind = finds.wish(messages=messages)
    finds.clerk.now += 1000
    finds.file(code("333333"))
    late = finds.wish(messages=messages, excluded_messages=frozenset({new.message_id}))

    assert [denied(each) for each in finds.claim(blind, late)] == ["superseded", "superseded"]


def test_by_its_id_an_artifact_that_was_superseded_is_not_granted(finds: Finds) -> None:
    old, _new = two(finds)
    (outcome,) = finds.claim(finds.ask(old.id))

    assert denied(outcome) == "superseded"


# many at once


async def test_claims_share_commits_and_one_of_a_hundred_is_granted(finds: Finds) -> None:
    finds.file(code("481920"))
    (artifact,) = finds.all()
    database, telemetry = finds.clerk.place.open(), Telemetry()
    try:
        grants = Grants(database, Granter(finds.strongbox, judge_link), telemetry)
        outcomes = await asyncio.gather(
            *(grants.request(finds.ask(artifact.id, AGENT, f"claim {n}")) for n in range(100))
        )
    finally:
        await database.close()

    assert sum(isinstance(each, ClaimGranted) for each in outcomes) == 1
    scraped = telemetry.scrape()
    assert 'oncebox_artifacts_total{end="granted",kind="code"} 1.0' in scraped
    assert 'oncebox_artifacts_total{end="already_claimed",kind="code"} 99.0' in scraped
    assert ArtifactKind.CODE.value in scraped
