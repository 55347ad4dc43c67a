"""Who a mail is from, and for whom: signed mails through the worker, to what is granted."""

from collections.abc import AsyncIterator, Mapping
from email.utils import formatdate
from typing import Any

import pytest

from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.artifacts.claims import claimant_of
from oncebox.ledger.inboxes import messages
from oncebox.mail.auth import dkim_verify
from oncebox.model.inboxes.artifact import (
    Artifact,
    ArtifactClaimRequest,
    ArtifactFilter,
    ClaimGranted,
)
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.received_mail import ArtifactKind, Envelope, ParsedMail, SenderVerdict
from oncebox.settings import MailSettings
from oncebox.workers.mail.sender_authentication import SenderAuthenticator
from tests.contract.inboxes.test_mail_processor import House
from tests.mail.signing import NAME, crafted, rsa_key
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.workers.test_sender_authentication import _Table

STRICT = InboxPolicy(senders=("example.com",), authenticated=True)
OURS, THEIRS = "inb_1@oncebox.test", "eve@elsewhere.example"
DAY = 86_400


class Post(House):
    """A house whose mail is really signed and really checked; nobody publishes an SPF record."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        table = _Table({NAME: [rsa_key()[1]], "_dmarc.example.com": [b"v=DMARC1; p=reject"]})
        self._judges = SenderAuthenticator(table, MailSettings())

    async def _judge(self, *args: Any) -> SenderVerdict:
        envelope, parsed, raw, _check = args
        assert isinstance(envelope, Envelope)
        assert isinstance(parsed, ParsedMail)
        return await self._judges.authenticate(envelope, parsed, raw, _checked)

    @property
    def now(self) -> int:
        """The time, in seconds."""
        return int(self.database.clock()) // 1000

    async def deliver(self, *raws: bytes, inbox: str = "inb_1") -> None:
        """Deliver mails one after the other, and wait until they are filed."""
        for raw in raws:
            count = len(await self.messages(inbox))
            await self.post(raw, inbox=inbox)
            await self.filed(count + 1, inbox)

    async def artifacts(self, inbox: str = "inb_1") -> list[Artifact]:
        """Return the codes of an inbox, oldest first."""
        found: list[Artifact] = await self.database.read(
            artifacts.page, Requester(tenant=TENANT), inbox
        )
        return found[::-1]

    async def granted(self, inbox: str = "inb_1") -> ClaimGranted | None:
        """Claim whatever code is meant."""
        wanted = ArtifactFilter(inbox_id=inbox, kind=ArtifactKind.CODE)
        result = await self.box.components.grants.request(
            ArtifactClaimRequest(
                claimant=claimant_of(Requester(tenant=TENANT)), artifact_filter=wanted
            )
        )
        assert result is None or isinstance(result, ClaimGranted), result
        return result

    async def mismatch(self, inbox: str) -> str:
        """Return why the last message of an inbox does not match."""
        last = (await self.messages(inbox))[-1]
        whole = await self.database.read(
            messages.get, self.box.components.mail_cipher, TENANT, last.id
        )
        return str(whole.document.mismatch)

    def mail(self, code: str, to: str = OURS, *, age: int = 0, more: str = "") -> bytes:
        """Return a mail with a code."""
        date = formatdate(self.now - age)
        return (
            f"{more}From: Ann <ann@example.com>\r\nTo: {to}\r\nSubject: Your code\r\n"
            f"Date: {date}\r\nMessage-ID: <{code}@example.com>\r\n\r\n"
            f"Your verification code is {code}.\r\n"
        ).encode()

    def signed(
        self, code: str, to: str = OURS, *, age: int = 0, more: str = "", **tags: str | None
    ) -> bytes:
        """Return the same, signed so many seconds ago."""
        raw = self.mail(code, to, age=age, more=more)
        return crafted({"t": str(self.now - age)} | tags, raw)


async def _checked(raw: bytes, answers: Mapping[str, list[bytes]]) -> Any:
    return dkim_verify.check_dkim(raw, answers)


@pytest.fixture
async def house(place: Place) -> AsyncIterator[Post]:
    """An opened box with an inbox without rules and one with the strictest."""
    house = Post(place)
    await house.open()
    await house.add_inbox("inb_strict", policy=STRICT)
    house.work()
    yield house
    await house.box.close()


# mail to somebody else


async def test_a_signed_mail_to_somebody_else_does_not_replace_the_code_of_an_inbox(
    house: Post,
) -> None:
    """Whoever received a signed mail can deliver it again, to any inbox."""
    genuine, replay = (
        house.signed("111111", "inb_strict@oncebox.test"),
        house.signed("666666", THEIRS),
    )
    await house.deliver(genuine, replay, inbox="inb_strict")
    first, second = await house.artifacts("inb_strict")
    granted = await house.granted("inb_strict")

    assert granted is not None
    assert granted.value.value == "111111"
    assert (first.matched, first.sender_verdict, first.superseded_by) == (True, "pass", None)
    assert (second.matched, second.sender_verdict) == (False, "not_addressed")
    assert {"not_addressed", "sender_unproven"} <= set(second.warnings)
    assert "not_addressed" in (await house.messages("inb_strict"))[1].warnings
    assert await house.mismatch("inb_strict") == "not_addressed"


async def test_without_rules_a_mail_to_somebody_else_does_not_replace_an_unproven_one(
    house: Post,
) -> None:
    await house.deliver(house.mail("111111"), house.signed("666666", THEIRS))
    granted = await house.granted()

    assert granted is not None
    assert (granted.value.value, granted.artifact.superseded_by) == ("111111", None)


async def test_a_mail_to_somebody_else_is_granted_with_warnings_where_there_are_no_rules(
    house: Post,
) -> None:
    await house.deliver(house.signed("666666", THEIRS))
    granted = await house.granted()

    assert granted is not None
    assert granted.artifact.sender_verdict == "not_addressed"
    assert set(granted.artifact.warnings) == {"not_addressed", "sender_unproven", "any_sender"}


async def test_an_inbox_that_stands_in_an_unsigned_cc_is_not_addressed(house: Post) -> None:
    """Anybody can add a field that the signature does not cover."""
    replay = b"Cc: inb_1@oncebox.test\r\n" + house.signed("666666", THEIRS)
    await house.deliver(replay)

    assert [each.sender_verdict for each in await house.artifacts()] == ["not_addressed"]


@pytest.mark.parametrize(
    ("to", "more", "fields"),
    [
        ("Box <INB_1+shop@OnceBox.test>", "", "from:to:date"),
        (f"{THEIRS}, {OURS}", "", "from:to:date"),
        (THEIRS, f"Cc: {OURS}\r\n", "from:to:cc:date"),
    ],
)
async def test_an_inbox_in_a_signed_to_or_cc_is_addressed(
    house: Post, to: str, more: str, fields: str
) -> None:
    await house.deliver(house.signed("111111", to, more=more, h=fields))
    (found,) = await house.artifacts()

    assert (found.sender_verdict, found.warnings) == ("pass", ("any_sender",))


async def test_a_signed_absence_of_recipients_is_not_addressed_either(house: Post) -> None:
    raw = house.mail("666666").replace(f"To: {OURS}\r\n".encode(), b"")
    await house.deliver(crafted({"t": str(house.now), "h": "from:to:date"}, raw))

    assert [each.sender_verdict for each in await house.artifacts()] == ["not_addressed"]


async def test_a_signature_without_recipients_is_a_proof_with_a_warning(house: Post) -> None:
    await house.deliver(house.signed("111111", THEIRS, h="from:subject:date"))
    (found,) = await house.artifacts()

    assert (found.sender_verdict, "recipient_unsigned" in found.warnings) == ("pass", True)


async def test_a_policy_can_allow_forwards_but_they_replace_no_mail_to_the_inbox(
    house: Post,
) -> None:
    policy = InboxPolicy(senders=("example.com",), forwards=True)
    for inbox in ("inb_only", "inb_both"):
        await house.add_inbox(inbox, policy=policy)
    await house.deliver(house.signed("222222", THEIRS), inbox="inb_only")
    await house.deliver(
        house.signed("111111", "inb_both@oncebox.test"),
        house.signed("222222", THEIRS),
        inbox="inb_both",
    )
    only, both = await house.granted("inb_only"), await house.granted("inb_both")

    assert only is not None
    assert both is not None
    assert (only.value.value, only.artifact.sender_verdict) == ("222222", "pass")
    assert "not_addressed" in only.artifact.warnings
    assert both.value.value == "111111"


# old signatures


@pytest.mark.parametrize("signs_time", [True, False])
async def test_an_old_signature_proves_nothing(house: Post, signs_time: bool) -> None:
    tags: dict[str, Any] = {} if signs_time else {"t": None}
    await house.deliver(house.signed("666666", age=2 * DAY, **tags), house.signed("111111", age=60))
    old, new = await house.artifacts()
    granted = await house.granted()

    assert (old.sender_verdict, "signature_old" in old.warnings) == ("signature_old", True)
    assert (new.sender_verdict, new.superseded_by) == ("pass", None)
    assert granted is not None
    assert granted.value.value == "111111"


async def test_an_old_signature_does_not_replace_an_unproven_code(house: Post) -> None:
    await house.deliver(house.mail("111111"), house.signed("666666", age=2 * DAY))
    granted = await house.granted()

    assert granted is not None
    assert granted.value.value == "111111"


# rules about senders


async def test_a_rule_about_senders_requires_proof(house: Post) -> None:
    """A look-alike can write any From."""
    await house.add_inbox("inb_rule", policy=InboxPolicy(senders=("example.com",)))
    await house.deliver(house.mail("111111"), house.mail("666666"), inbox="inb_rule")

    assert await house.granted("inb_rule") is None
    assert await house.mismatch("inb_rule") == "sender_unauthenticated"

    await house.deliver(house.signed("222222", "inb_rule@oncebox.test"), inbox="inb_rule")
    granted = await house.granted("inb_rule")

    assert granted is not None
    assert (granted.value.value, granted.artifact.warnings) == ("222222", ())


async def test_who_switches_authentication_off_by_name_is_warned_each_time(house: Post) -> None:
    policy = InboxPolicy(senders=("nobody.example",), authenticated=False)
    await house.add_inbox("inb_off", policy=policy)
    raw = house.mail("111111").replace(b"ann@example.com", b"ann@nobody.example")
    await house.deliver(raw, inbox="inb_off")
    granted = await house.granted("inb_off")

    assert granted is not None
    assert granted.artifact.warnings == ("sender_unproven", "authentication_off")


async def test_without_rules_a_code_of_anybody_is_granted_with_a_warning_that_says_so(
    house: Post,
) -> None:
    await house.deliver(house.signed("111111"))
    granted = await house.granted()

    assert granted is not None
    assert granted.artifact.warnings == ("any_sender",)
