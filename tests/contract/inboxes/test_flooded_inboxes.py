"""Floods: what others send to an inbox hides nothing of the sender that is waited for."""

import msgspec
import pytest

from oncebox.model.admin.access import ApiKey
from oncebox.model.inboxes.artifact import ArtifactState, ClaimGranted
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.model.inboxes.wait_filter import WaitFilter
from tests.contract.inboxes.test_longpoll_reads import look
from tests.support.clerk import Clerk
from tests.support.finds import Finds, code

_WANTED = "no-reply@mail.acme.com"
#: more than a choice is made among
_FLOOD = 60


@pytest.fixture
def finds(clerk: Clerk) -> Finds:
    """A ledger with one inbox."""
    return Finds(clerk)


@pytest.fixture
def key(finds: Finds) -> ApiKey:
    """The key of all who wait."""
    return finds.office.key("operator")[0]


def flood(finds: Finds, *, proven: bool, domain: str = "") -> None:
    """File mails of others, each of a domain of its own unless one is given."""
    finds.file(
        *(
            code(f"{n:06}", sender=f"s{n}@{domain or f'other{n}.com'}", proven=proven)
            for n in range(_FLOOD)
        )
    )


@pytest.mark.parametrize("awaited_kind", [ArtifactKind.CODE, ArtifactKind.MESSAGE])
@pytest.mark.parametrize("rule", ["acme.com", "mail.acme.com", "*.acme.com", _WANTED])
@pytest.mark.parametrize("domain", ["", "other.com"])
def test_mails_of_others_do_not_displace_those_of_the_named_sender(
    finds: Finds, key: ApiKey, awaited_kind: ArtifactKind, rule: str, domain: str
) -> None:
    finds.file(code("987654", sender=_WANTED))
    flood(finds, proven=True, domain=domain)
    ((place,),) = look(finds, key, WaitFilter(kind=awaited_kind, senders=(rule,)))
    wish = msgspec.structs.replace(finds.wish(), artifact_filter=place.artifact_filter)
    (granted,) = finds.claim(wish)

    assert [each.sender for each in place.found] == [_WANTED]
    assert isinstance(granted, ClaimGranted)
    assert granted.artifact.sender == _WANTED


def test_after_a_flood_a_new_code_still_supersedes_the_old_one_of_its_sender(
    finds: Finds,
) -> None:
    finds.file(code("111111", sender=_WANTED))
    flood(finds, proven=True)
    finds.clerk.now += 1000
    finds.file(code("222222", sender=_WANTED))
    old, new = (each for each in finds.all() if each.sender == _WANTED)

    assert (old.state, old.superseded_by) == (ArtifactState.SUPERSEDED, new.id)


@pytest.mark.parametrize("awaited_kind", [ArtifactKind.CODE, ArtifactKind.MESSAGE])
def test_who_names_no_sender_chooses_among_the_newest_whoever_waits_too(
    finds: Finds, key: ApiKey, awaited_kind: ArtifactKind
) -> None:
    finds.file(code("987654", sender=_WANTED))
    flood(finds, proven=True)
    anybody = WaitFilter(kind=awaited_kind)
    ((alone,),) = look(finds, key, anybody)
    (_, (together,)) = look(
        finds, key, WaitFilter(kind=awaited_kind, senders=("acme.com",)), anybody
    )

    assert {each.sender for each in together.found} == {each.sender for each in alone.found}
    assert _WANTED not in {each.sender for each in alone.found}


def test_unproven_mails_in_the_name_of_the_sender_do_not_displace_the_proven_one(
    finds: Finds, key: ApiKey
) -> None:
    finds.file(code("987654", sender=_WANTED))
    flood(finds, proven=True)
    flood(finds, proven=False, domain="mail.acme.com")
    ((place,),) = look(finds, key, WaitFilter(kind=ArtifactKind.CODE, senders=("acme.com",)))

    assert [each.sender for each in place.found] == [_WANTED]
