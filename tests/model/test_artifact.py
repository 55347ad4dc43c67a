"""What becomes an artifact, and that what it says does not slip out."""

import msgspec
import pytest

from oncebox.core.encryption import MasterKey
from oncebox.errors import MasterKeyWrong
from oncebox.ledger.ciphers import ArtifactCipher
from oncebox.model.inboxes.artifact import (
    ARTIFACT_WARNINGS,
    TRANSITIONS,
    ArtifactState,
    ArtifactValue,
    LinkParts,
    candidates_to_keep,
    to_thousandths,
)
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.received_mail import ArtifactKind, Extraction
from oncebox.schemas.artifacts import ArtifactSender, Grant, GrantedLink
from oncebox.workers.mail.mail_processor import build_artifacts
from tests.support.finds import candidate, code, parsed, verdict

KEY = MasterKey(bytes(range(32)))


def test_the_best_of_each_kind_is_kept() -> None:
    best, other = candidate("111111", score=20), candidate("222222", score=10)
    link = candidate("https://x", ArtifactKind.LINK)
    found = Extraction(code=best, codes=(best, other), link=link, links=(link,))

    assert candidates_to_keep(found) == [(best, False), (link, False)]
    assert candidates_to_keep(Extraction(codes=(other,))) == []


def test_where_nobody_can_tell_all_that_are_as_good_are_kept() -> None:
    """The same value twice is one of them, and a long list is cut."""
    equal = tuple(candidate(f"{n % 4}" * 6) for n in range(9))
    less = (*equal[:2], candidate("999999", score=1))
    many = tuple(candidate(f"{n:06}") for n in range(30))

    assert candidates_to_keep(Extraction(codes=equal, codes_tied=True)) == [
        (e, True) for e in equal[:4]
    ]
    assert candidates_to_keep(Extraction(codes=less, codes_tied=True)) == [
        (e, True) for e in equal[:2]
    ]
    assert len(candidates_to_keep(Extraction(codes=many, codes_tied=True))) == 5


@pytest.mark.parametrize(
    ("confidence", "stored"), [(0, 0), (0.98765, 988), (1, 1000), (7.0, 1000), (-1.0, 0)]
)
def test_confidence_is_kept_in_thousandths(confidence: float, stored: int) -> None:
    assert to_thousandths(confidence) == stored


def test_only_states_that_exist_change() -> None:
    assert {state for pair in TRANSITIONS for state in pair} == set(ArtifactState)
    assert all(ARTIFACT_WARNINGS.values())


def test_what_an_artifact_says_is_not_in_its_text_form() -> None:
    value = ArtifactValue(value="481920", shown="48 19 20")
    link = LinkParts(host="x.example", token="481920", parameters=(("t", "481920"),))
    grant = Grant(
        id="art_1", inbox_id="inb_1", message_id="msg_1", sequence=1, kind=ArtifactKind.CODE,
        state=ArtifactState.CLAIMED, confidence=1, tied=False, matched=True,
        sender=ArtifactSender(domain="x.example", verdict="pass"), purposes=[], received_at=1,
        duplicates=0, warnings=[], superseded_by=None, claimed=None, purged=False,
        value="481920", link=None, repeated=False,
    )  # fmt: skip

    for each in (value, link, grant):
        assert "481920" not in repr(each) + str(each) + f"{each}"
        assert "481920" not in repr(each.__rich_repr__())


# the strongbox


def test_a_value_opens_only_for_its_own_row() -> None:
    box = ArtifactCipher(KEY)
    sealed = box.encrypt("acme", "art_1", ArtifactValue(value="481920"))

    assert box.decrypt("acme", "art_1", sealed).value == "481920"
    assert b"481920" not in sealed
    for tenant, id_ in (("other", "art_1"), ("acme", "art_2")):
        with pytest.raises(MasterKeyWrong):
            box.decrypt(tenant, id_, sealed)
    with pytest.raises(MasterKeyWrong):
        ArtifactCipher(MasterKey(bytes(32))).decrypt("acme", "art_1", sealed)


def test_marks_depend_on_every_part_and_on_the_key() -> None:
    box = ArtifactCipher(KEY)
    parts = [
        ("acme", "inb_1", ArtifactKind.CODE, "1"),
        ("acme", "inb_1", ArtifactKind.CODE, "2"),
        ("acme", "inb_1", ArtifactKind.LINK, "1"),
        ("acme", "inb_2", ArtifactKind.CODE, "1"),
        ("acm", "einb_1", ArtifactKind.CODE, "1"),
    ]
    marks = {box.value_fingerprint(*each) for each in parts}
    claims = {
        box.claim_fingerprint("acme", key, claim)
        for key, claim in (("k", "c"), ("kc", ""), ("", "kc"))
    }

    assert len(marks | claims) == len(parts) + 3
    assert box.value_fingerprint(*parts[0]) == ArtifactCipher(KEY).value_fingerprint(*parts[0])
    assert box.value_fingerprint(*parts[0]) != ArtifactCipher(
        MasterKey(bytes(32))
    ).value_fingerprint(*parts[0])


def test_derived_keys_differ_by_purpose_and_are_not_the_key() -> None:
    one, two = KEY.derive("one"), KEY.derive("two")

    assert one == MasterKey(bytes(range(32))).derive("one")
    assert len({one, two, bytes(range(32))}) == 3
    assert len(one) == 32


def test_a_link_in_parts_shows_nothing_to_a_log() -> None:
    parts = GrantedLink(host="h", token="s3cret", parameters=[("token", "s3cret")])

    assert "s3cret" not in repr(parts)
    assert "s3cret" not in repr(parts.__rich_repr__())


# findings


def test_a_date_counts_only_if_its_sender_signed_it() -> None:
    signed = code("481920", signed_at=5_000)
    read = parsed(signed)
    unsigned = msgspec.structs.replace(verdict(signed), details=())
    foreign = msgspec.structs.replace(verdict(signed), domain="other.example")
    box = ArtifactCipher(KEY)
    dates = [
        build_artifacts(box, "acme", "inb_1", read, each)[0].signed_at
        for each in (verdict(signed), unsigned, foreign)
    ]

    assert dates == [5_000, None, None]


def test_a_value_that_no_json_can_say_is_spelled_out() -> None:
    letter = code("48\ud800")
    (found,) = build_artifacts(
        ArtifactCipher(KEY), "acme", "inb_1", parsed(letter), verdict(letter)
    )

    assert ArtifactCipher(KEY).decrypt("acme", found.id, found.encrypted).value == "48\\ud800"


# what a proof covers

STRICT = InboxPolicy(authenticated=True)
BY_DKIM = ("dkim_aligned", "signed_date", "signed_from")


def vouched(details: tuple[str, ...], *, where: str = "subject", text: str = "") -> bool:
    """Return whether a code of a proven mail counts as its sender's."""
    letter = code("481920", signed_at=5_000)
    found = msgspec.structs.replace(candidate("481920"), where=where)
    read = msgspec.structs.replace(parsed(letter), found=Extraction(code=found), text=text)
    judged = msgspec.structs.replace(verdict(letter), details=details)
    box = ArtifactCipher(KEY)
    (made,) = build_artifacts(box, "acme", "inb_1", read, judged, STRICT)
    (lenient,) = build_artifacts(box, "acme", "inb_1", read, judged)

    assert lenient.matched
    assert made.vouched is made.matched is ("sender_unproven" not in made.warnings)
    assert made.vouched or made.signed_at is None
    return made.vouched


def test_a_code_of_the_subject_counts_only_if_the_subject_is_signed() -> None:
    """Whoever has a signed mail could send it on under another subject."""
    assert not vouched(BY_DKIM)
    assert vouched((*BY_DKIM, "signed_subject"))
    assert vouched(BY_DKIM, where="plain")


def test_a_sender_whose_own_server_brought_the_mail_vouches_for_all_of_it() -> None:
    assert vouched(("spf_aligned",))
    assert vouched((*BY_DKIM, "spf_aligned"))


@pytest.mark.parametrize("text", ["481920", "use 481 920.", "48-19-20", "\u0664\u0668\u0661920 ok"])
def test_a_code_that_the_signed_text_has_too_counts(text: str) -> None:
    assert vouched(BY_DKIM, text=f"Your code:\n{text}\n")


@pytest.mark.parametrize("text", ["", "order 94819207", "1481920", "481, 920 pieces", "4819"])
def test_a_number_that_only_contains_the_code_is_not_the_code(text: str) -> None:
    assert not vouched(BY_DKIM, text=text)
