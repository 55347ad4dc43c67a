"""Mail by webhook: in the inbox of its recipient, on disk before it is answered, once."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from oncebox.core import faults, ids
from oncebox.core.disk_space import DiskLevel
from oncebox.errors import SignatureInvalid
from oncebox.ledger.admin import tenants
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.deliveries import quarantine
from oncebox.ledger.inboxes.recipient_directory import RecipientRoute, RecipientStatus
from oncebox.ledger.mailboxes import mailboxes
from oncebox.model.inboxes.inbox import Inbox, InboxOptions
from oncebox.model.mailboxes.mailbox import MailboxKind, NewMailbox
from oncebox.server.webhooks.request_verification import verify_again
from tests.support import inbound
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.hookserver import LARGEST_MAIL, HookServer, _deed, serving
from tests.support.inbound import PROVIDERS, SENDER, Letter, MailKeeper, Posted, Provider
from tests.support.letters import mail
from tests.support.mail import Stored, stored

RAW = mail(text="h\u00e9 \u2713 your code is 123456")
NOBODY = "nobody@oncebox.test"

each = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)


class Desk:
    """A server with an inbox, and a source for each provider that is asked for."""

    def __init__(self, server: HookServer, keeper: MailKeeper) -> None:
        self.server = server
        self.keeper = keeper

    async def inbox(self, tenant: str = TENANT, attempt: str = "a") -> Inbox:
        rooms = self.server.rooms
        made = await rooms.database.write(
            rooms.inboxes.allocate,
            Requester(tenant=tenant),
            [InboxOptions(attempt_id=attempt)],
            rooms.database.clock(),
        )
        inbox: Inbox = made[0].inbox
        return inbox

    async def source(self, provider: Provider, *secrets: str, **table: Any) -> None:
        options = dict(provider.options)
        if provider.name in {"resend", "ses"}:
            options["api_url"] = self.keeper.url
        await self.server.source(
            provider.name,
            provider.scheme,
            *(secrets or provider.secrets),
            **({"options": options} | table),
        )

    async def send(self, provider: Provider, *to: str, **letter: Any) -> httpx2.Response:
        """Let a provider post a mail."""
        sent = Letter(**({"raw": RAW, "to": to, "url": self.url(provider)} | letter))
        if provider.name == "resend" and sent.raw is not None:
            self.keeper.mails.setdefault(sent.id, sent.raw)
        return await self.post(provider, provider.post(sent))

    async def post(self, provider: Provider, posted: Posted) -> httpx2.Response:
        return await self.server.post(provider.name, posted.body, posted.headers)

    async def status(self, provider: Provider, *to: str, **letter: Any) -> int:
        """Let a provider post a mail; 0 if the connection was closed without an answer."""
        try:
            return (await self.send(provider, *to, **letter)).status_code
        except httpx2.RemoteProtocolError:
            return 0

    def url(self, provider: Provider) -> str:
        return f"http://127.0.0.1:{self.server.port}/in/{provider.name}"

    async def stored(self) -> list[Stored]:
        return await self.server.rooms.database.read(stored)

    def count(self, provider: Provider, outcome: str) -> float:
        wanted = f'oncebox_inbound_mails_total{{outcome="{outcome}",provider="{provider.name}"}}'
        for line in self.server.rooms.telemetry.scrape().splitlines():
            if line.startswith(wanted):
                return float(line.rpartition(" ")[2])
        raise AssertionError(outcome)

    async def quarantined(self) -> list[str]:
        rooms = self.server.rooms
        async with asyncio.timeout(10):
            while not (found := await rooms.database.read(quarantine.newest, TENANT)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return [one.reason for one in found]


@pytest.fixture
async def desk(place: Place) -> AsyncIterator[Desk]:
    async with MailKeeper() as keeper, serving(place, local=[keeper.address]) as server:
        yield Desk(server, keeper)


@each
async def test_a_mail_is_on_disk_with_its_envelope_when_it_is_answered(
    desk: Desk, provider: Provider
) -> None:
    inbox = await desk.inbox()
    await desk.source(provider)

    answer = await desk.send(provider, inbox.email)

    assert (answer.status_code, answer.json()) == (200, {"status": "accepted"})
    (found,) = await desk.stored()
    assert (found.body, found.tenant, found.road) == (RAW, TENANT, "webhook")
    assert found.key.startswith(f"{inbox.id}:")
    assert found.envelope.recipients[0].address == inbox.email
    assert found.envelope.origin == provider.name
    assert found.envelope.sender in {SENDER, ""}
    assert not found.envelope.any_recipient
    assert desk.count(provider, "stored") == 1


@each
async def test_a_provider_s_retry_is_answered_and_stored_once(
    desk: Desk, provider: Provider
) -> None:
    inbox = await desk.inbox()
    await desk.source(provider)

    answers = [(await desk.send(provider, inbox.email)).status_code for _ in range(3)]

    assert answers == [200] * 3
    assert len(await desk.stored()) == 1
    assert (desk.count(provider, "stored"), desk.count(provider, "duplicate")) == (1, 2)


@each
async def test_the_same_provider_id_is_the_same_mail_whatever_its_bytes(
    desk: Desk, provider: Provider
) -> None:
    inbox = await desk.inbox()
    await desk.source(provider)
    other = mail(text="retried with other trace headers")

    await desk.send(provider, inbox.email)
    desk.keeper.mails.clear()
    again = await desk.send(provider, inbox.email, raw=other)

    assert again.status_code == 200
    assert len(await desk.stored()) == (1 if provider.has_ids else 2)


async def test_the_same_id_from_another_source_is_another_mail(desk: Desk) -> None:
    inbox = await desk.inbox()
    postmark = PROVIDERS["postmark"]
    await desk.source(postmark)
    await desk.server.source("other", postmark.scheme, *postmark.secrets)
    posted = postmark.post(Letter(RAW, [inbox.email]))

    for name in ("postmark", "other"):
        assert (await desk.server.post(name, posted.body, posted.headers)).status_code == 200

    assert len(await desk.stored()) == 2


@each
async def test_mail_for_nobody_ends_in_the_provider_s_terms(desk: Desk, provider: Provider) -> None:
    await desk.source(provider)

    answer = await desk.send(provider, NOBODY)

    assert (answer.status_code, answer.json()) == (provider.unrouted, {"status": "unrouted"})
    assert await desk.stored() == []
    assert not desk.keeper.asked  # nothing is fetched for nobody
    assert desk.count(provider, "unrouted") == 1


@each
async def test_mail_for_an_inbox_of_another_tenant_is_for_nobody(
    desk: Desk, provider: Provider
) -> None:
    rooms = desk.server.rooms
    await rooms.database.write(tenants.create, "other", _deed(rooms, TENANT))
    inbox = await desk.inbox()
    await desk.source(provider, tenant="other")

    assert await desk.status(provider, inbox.email) == provider.unrouted
    assert await desk.stored() == []


async def test_a_mail_for_several_inboxes_is_stored_for_each(desk: Desk) -> None:
    first, second = await desk.inbox(), await desk.inbox(attempt="b")
    for name in ("sendgrid", "mailgun", "ses", "resend", "mandrill"):
        await desk.source(PROVIDERS[name])
        letter = {"id": f"id-{name}", "raw": mail(text=name)}
        assert (
            await desk.status(PROVIDERS[name], first.email, NOBODY, second.email, **letter) == 200
        )

    assert len(await desk.stored()) == 10


async def test_mail_forwarded_to_the_provider_s_address_goes_to_the_recipients_it_names(
    desk: Desk,
) -> None:
    inbox, postmark = await desk.inbox(), PROVIDERS["postmark"]
    await desk.source(postmark)
    extra = {"OriginalRecipient": "0123abcd@inbound.postmarkapp.com"}

    assert await desk.status(postmark, inbox.email, extra=extra) == 200

    (found,) = await desk.stored()
    assert found.envelope.recipients[0].address == inbox.email


@each
async def test_all_mail_of_a_bound_source_goes_to_its_inbox(desk: Desk, provider: Provider) -> None:
    inbox = await desk.inbox()
    await desk.source(provider, inbox=inbox.id)

    assert await desk.status(provider, "support@customer.example") == 200

    (found,) = await desk.stored()
    assert found.key.startswith(f"{inbox.id}:")
    assert found.envelope.any_recipient


async def test_a_bound_inbox_that_is_missing_delays_mail_and_names_the_remedy(desk: Desk) -> None:
    postmark = PROVIDERS["postmark"]
    await desk.source(postmark, inbox="inb_missing")

    answer = await desk.send(postmark, NOBODY)

    assert (answer.status_code, answer.json()["code"]) == (503, "inbound_mail_delayed")
    assert "oncebox source set postmark --inbox" in answer.json()["detail"]


@each
async def test_a_mail_that_is_not_committed_is_not_acknowledged(
    desk: Desk, provider: Provider
) -> None:
    inbox = await desk.inbox()
    await desk.source(provider)
    faults.arm("inbound.rows-written:1:raise")
    try:
        first = await desk.status(provider, inbox.email)
    finally:
        faults.disarm()
    before = await desk.stored()

    assert first == provider.temporary
    assert before == []
    assert await desk.status(provider, inbox.email) == 200
    assert len(await desk.stored()) == 1


@each
async def test_an_unverified_request_stores_nothing_and_does_not_end_the_retries(
    desk: Desk, provider: Provider
) -> None:
    inbox = await desk.inbox()
    curve, modulus = inbound.other_keys()
    wrong = {
        "postmark": "postmark:other",
        "sendgrid": curve,
        "postal": modulus,
        "ses": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "resend": "whsec_" + inbound.b64(b"another key altogether!!"),
    }
    await desk.source(provider, wrong.get(provider.name, "another secret"))

    assert await desk.status(provider, inbox.email) == provider.unverified
    assert await desk.stored() == []
    assert await desk.quarantined()


@pytest.mark.parametrize("name", ["mailgun", "postmark", "sendgrid", "ses", "mandrill"])
async def test_missing_raw_mail_is_delayed_and_the_remedy_named(desk: Desk, name: str) -> None:
    provider, inbox = PROVIDERS[name], await desk.inbox()
    await desk.source(provider)

    answer = await desk.send(provider, inbox.email, raw=None)

    assert (answer.status_code, answer.json()["code"]) == (503, "inbound_raw_missing")
    assert provider.remedy in answer.json()["detail"]
    assert await desk.stored() == []
    assert desk.count(provider, "raw_missing") == 1


_MALFORMED = {
    "sendgrid-no-form": lambda: inbound.sign_sendgrid(
        Posted({"content-type": "multipart/form-data"}, b"--x")
    ),
    "sendgrid-broken-form": lambda: inbound.sign_sendgrid(
        Posted({"content-type": "multipart/form-data; boundary=x"}, b"--y\r\n\r\n")
    ),
    "sendgrid-bad-envelope": lambda: inbound.sign_sendgrid(
        inbound.multipart([("envelope", b"{"), ("email", RAW)])
    ),
    "postmark-html": lambda: Posted(inbound.postmark(Letter(RAW, [])).headers, b"<html>"),
    "postmark-deep": lambda: Posted(
        inbound.postmark(Letter(RAW, [])).headers, b"[" * 100_000
    ),
    "ses-bad-bucket": lambda: inbound.sns({
        "notificationType": "Received",
        "receipt": {"action": {"type": "S3", "bucketName": "../../etc", "objectKey": "x"}},
    }),
    "ses-bad-base64": lambda: inbound.sns({
        "notificationType": "Received", "content": "!!",
        "receipt": {"action": {"type": "SNS", "encoding": "BASE64"}},
    }),
    "resend-bad-id": lambda: inbound.resend(Letter(RAW, [], id="../../keys")),
    "cloudflare-json": lambda: Posted(
        inbound.cloudflare(Letter(RAW, ["a@b"])).headers | {"content-type": "application/json"}, RAW
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", _MALFORMED)
async def test_what_cannot_be_read_is_refused_in_the_provider_s_terms(
    desk: Desk, case: str
) -> None:
    provider = PROVIDERS[case.partition("-")[0]]
    await desk.source(provider)

    answer = await desk.post(provider, _MALFORMED[case]())

    assert answer.status_code == provider.refused
    assert answer.json()["code"] == "inbound_mail_refused"
    assert "docs/inbound-webhooks.md" in answer.json()["detail"]
    assert desk.count(provider, "malformed") == 1


async def test_a_full_inbox_delays_a_mail_that_the_others_get_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, ses = await desk.inbox(), PROVIDERS["ses"]
    await desk.source(ses)
    recipients = desk.server.rooms.recipients
    find = recipients.find

    async def found(local: str, domain: str) -> RecipientRoute:
        if local == "full":
            return RecipientRoute(RecipientStatus.FULL, tenant=TENANT)
        if local == "full-elsewhere":
            return RecipientRoute(RecipientStatus.FULL, tenant="other")
        return await find(local, domain)

    monkeypatch.setattr(recipients, "find", found)

    answer = await desk.send(ses, "full@oncebox.test", inbox.email)

    assert (answer.status_code, answer.json()["code"]) == (503, "inbound_inbox_full")
    assert len(await desk.stored()) == 1
    assert await desk.status(ses, "full@oncebox.test") == 503
    assert await desk.status(ses, "full-elsewhere@oncebox.test") == 200  # for nobody here


async def test_mail_is_delayed_while_the_disk_is_almost_full(desk: Desk) -> None:
    inbox, postmark = await desk.inbox(), PROVIDERS["postmark"]
    await desk.source(postmark)

    class Full:
        level = DiskLevel.NO_MAIL

    desk.server.hooks._inbound._disk = Full()  # type: ignore[assignment]

    assert await desk.status(postmark, inbox.email) == 503
    assert await desk.stored() == []


# size


async def test_a_mail_may_be_larger_than_other_webhooks(desk: Desk) -> None:
    inbox, sendgrid = await desk.inbox(), PROVIDERS["sendgrid"]
    await desk.source(sendgrid)
    await desk.server.source("github")
    large = mail(text="x" * 300 * 1024)

    assert await desk.status(sendgrid, inbox.email, raw=large) == 200
    refused = await desk.server.post("github", large, {})

    assert refused.status_code == 413
    (found,) = await desk.stored()
    assert found.body == large


async def test_a_large_mail_for_a_paused_source_is_delayed_and_not_refused(desk: Desk) -> None:
    inbox, sendgrid = await desk.inbox(), PROVIDERS["sendgrid"]
    await desk.source(sendgrid, paused=True)

    assert await desk.status(sendgrid, inbox.email, raw=mail(text="x" * 300 * 1024)) == 503


async def test_a_mail_over_the_limit_is_refused_for_good(desk: Desk) -> None:
    inbox, mailgun = await desk.inbox(), PROVIDERS["mailgun"]
    await desk.source(mailgun)
    answer = await desk.send(mailgun, inbox.email, raw=b"x" * (LARGEST_MAIL + 1))

    assert (answer.status_code, answer.json()["code"]) == (406, "inbound_mail_too_large")


async def test_two_gigabytes_are_refused_before_they_arrive(desk: Desk) -> None:
    await desk.source(PROVIDERS["sendgrid"])
    reader, writer = await asyncio.open_connection("127.0.0.1", desk.server.port)
    writer.write(
        b"POST /in/sendgrid HTTP/1.1\r\nhost: x\r\ncontent-length: 2147483648\r\n\r\nbegin"
    )

    answer = await reader.readline()
    writer.close()

    assert b" 413 " in answer


# fetched mail


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("404", "inbound_body_gone"), ("410", "inbound_body_gone"), ("null", "inbound_body_gone"),
        ("500", "inbound_not_fetched"), ("401", "inbound_not_fetched"),
        ("403", "inbound_not_fetched"), ("429", "inbound_not_fetched"),
        ("html", "inbound_not_fetched"), ("cut", "inbound_not_fetched"),
        ("redirect", "inbound_not_fetched"),
    ],
)  # fmt: skip
async def test_a_notice_without_its_mail_is_never_acknowledged(
    desk: Desk, fault: str, code: str
) -> None:
    inbox, resend = await desk.inbox(), PROVIDERS["resend"]
    await desk.source(resend)
    desk.keeper.script.add(fault)

    answer = await desk.send(resend, inbox.email)

    assert (answer.status_code, answer.json()["code"]) == (503, code)
    assert inbound.RESEND_KEY not in answer.text
    assert await desk.stored() == []
    if code == "inbound_body_gone":
        assert await desk.quarantined() == ["missing_mail_body"]
    assert await desk.status(resend, inbox.email) == 200  # the provider's next try
    assert len(await desk.stored()) == 1


async def test_a_raw_mail_that_is_gone_after_its_notice_is_quarantined(desk: Desk) -> None:
    inbox, resend = await desk.inbox(), PROVIDERS["resend"]
    await desk.source(resend)

    answer = await desk.post(resend, resend.post(Letter(RAW, [inbox.email])))

    assert (answer.status_code, answer.json()["code"]) == (503, "inbound_body_gone")
    assert await desk.quarantined() == ["missing_mail_body"]
    assert desk.count(resend, "gone") == 1


async def test_a_source_without_a_key_says_how_to_add_it(desk: Desk) -> None:
    inbox, resend = await desk.inbox(), PROVIDERS["resend"]
    await desk.source(resend, inbound.WHSEC)

    answer = await desk.send(resend, inbox.email)

    assert (answer.status_code, answer.json()["code"]) == (503, "inbound_not_fetched")
    assert "oncebox source secret add resend --secret -" in answer.json()["detail"]
    assert not desk.keeper.asked


async def test_a_key_for_fetching_verifies_no_request(desk: Desk) -> None:
    """Otherwise whoever learns the key could post mail, and the reverse."""
    await desk.source(PROVIDERS["resend"], inbound.RESEND_KEY)

    answer = await desk.send(PROVIDERS["resend"], NOBODY)

    assert (answer.status_code, answer.json()["code"]) == (503, "source_not_ready")


async def test_mail_in_s3_is_fetched_before_it_is_acknowledged(desk: Desk) -> None:
    inbox, ses = await desk.inbox(), PROVIDERS["ses"]
    await desk.source(ses)
    key = "in/2026 11/m\u00e4il+1"

    gone = await desk.send(ses, inbox.email, key=key)
    desk.keeper.mails[key] = RAW
    desk.keeper.script.add("403", "503", "cut", "huge")
    failed = [await desk.send(ses, inbox.email, key=key) for _ in range(4)]
    stored_ = await desk.send(ses, inbox.email, key=key)

    assert gone.json()["code"] == "inbound_body_gone"
    codes = [each_.json()["code"] for each_ in failed]
    assert codes == [*["inbound_not_fetched"] * 3, "inbound_mail_too_large"]
    assert stored_.status_code == 200
    assert [found.body for found in await desk.stored()] == [RAW]


async def test_mail_is_only_fetched_from_buckets_that_the_source_lists(desk: Desk) -> None:
    inbox, ses = await desk.inbox(), PROVIDERS["ses"]
    await desk.source(ses, options={"topics": [inbound.TOPIC], "buckets": ["another"]})

    answer = await desk.send(ses, inbox.email, key="k")

    assert answer.json()["code"] == "inbound_not_fetched"
    assert "buckets=" in answer.json()["detail"]
    assert not desk.keeper.asked


# the rules of SNS


async def test_a_foreign_topic_is_refused_before_its_certificate_is_fetched(desk: Desk) -> None:
    await desk.source(PROVIDERS["ses"])
    foreign = inbound.TOPIC.replace("123456789012", "999999999999")

    answer = await desk.post(PROVIDERS["ses"], inbound.sns({}, TopicArn=foreign))

    assert answer.status_code == 403
    assert await desk.quarantined() == ["topic_not_allowed"]


async def test_a_certificate_in_a_bucket_is_not_trusted(desk: Desk) -> None:
    await desk.source(PROVIDERS["ses"])
    url = "https://s3.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem"

    answer = await desk.post(PROVIDERS["ses"], inbound.sns({}, SigningCertURL=url))

    assert (answer.status_code, answer.json()["code"]) == (503, "signature_refused")
    assert await desk.quarantined() == ["untrusted_certificate"]


async def test_a_subscription_of_a_foreign_topic_is_not_confirmed(desk: Desk) -> None:
    await desk.source(PROVIDERS["ses"])
    foreign = inbound.TOPIC.replace("123456789012", "999999999999")
    posted = inbound.sns(
        {}, Type="SubscriptionConfirmation", TopicArn=foreign, Token="t",
        SubscribeURL=f"{desk.keeper.url}/confirm",
    )  # fmt: skip

    answer = await desk.post(PROVIDERS["ses"], posted)

    assert answer.status_code == 403
    assert not desk.keeper.asked


# the quarantine


@pytest.mark.parametrize("name", ["mailgun", "resend"])
async def test_a_rejected_mail_is_admitted_once_its_secret_is_right(desk: Desk, name: str) -> None:
    provider, inbox, rooms = PROVIDERS[name], await desk.inbox(), desk.server.rooms
    wrong = "whsec_" + inbound.b64(b"another key altogether!!")
    await desk.source(provider, wrong, *provider.secrets[1:])
    await desk.status(provider, inbox.email)
    await desk.quarantined()
    (entry,) = await rooms.database.read(quarantine.newest, TENANT)
    stored_request = await rooms.database.read(quarantine.get, TENANT, entry.id)
    rejected = quarantine.restore(stored_request, rooms.master_key)
    with pytest.raises(SignatureInvalid):
        await verify_again(rooms.sources, rooms.intake, rejected, desk.server.hooks._inbound.draft)
    await desk.server.add_secret(name, provider.secrets[0])

    found = await verify_again(
        rooms.sources, rooms.intake, rejected, desk.server.hooks._inbound.draft
    )
    await rooms.database.write(quarantine.admit, entry.id, found, _deed(rooms, TENANT))

    assert [each_.body for each_ in await desk.stored()] == [RAW]


# what is not mail


@pytest.mark.parametrize(
    ("name", "posted"),
    [
        ("resend", inbound.resend(Letter(RAW, [NOBODY], extra={"type": "email.delivered"}))),
        ("ses", inbound.sns({"notificationType": "Bounce"})),
        ("ses", inbound.sns({"notificationType": "Received", "receipt": {
            "action": {"type": "Lambda"}}})),
    ],
    ids=["resend", "ses-bounce", "ses-lambda"],
)  # fmt: skip
async def test_what_is_not_about_received_mail_is_acknowledged_and_ignored(
    desk: Desk, name: str, posted: Posted
) -> None:
    await desk.source(PROVIDERS[name])

    answer = await desk.post(PROVIDERS[name], posted)

    assert (answer.status_code, answer.json()) == (200, {"status": "ignored"})
    assert desk.count(PROVIDERS[name], "ignored") == 1


async def test_a_source_may_keep_its_requests_as_webhooks(desk: Desk) -> None:
    inbox, mailgun = await desk.inbox(), PROVIDERS["mailgun"]
    await desk.source(mailgun, inbound=False)

    assert await desk.status(mailgun, inbox.email) == 200

    assert await desk.stored() == []
    (found,) = desk.server.clerk.all()
    assert (found.source, found.type) == ("mailgun", "inbound")


async def test_a_scheme_without_mail_cannot_be_bound_to_an_inbox(desk: Desk) -> None:
    await desk.server.source("github", inbox="inb_1")

    answer = await desk.server.post_github({"ref": "main"})

    assert (answer.status_code, answer.json()["code"]) == (503, "source_not_ready")


# what others learn


async def test_the_client_is_believed_only_where_the_signature_covers_it(desk: Desk) -> None:
    inbox = await desk.inbox()
    for provider in PROVIDERS.values():
        await desk.source(provider)
        raw = mail(text=provider.name)
        assert await desk.status(provider, inbox.email, raw=raw, id=f"id-{provider.name}") == 200

    clients = {one.envelope.origin: one.envelope.client for one in await desk.stored()}
    assert {name for name, client in clients.items() if client} == {"sendgrid"}
    assert clients["sendgrid"] == "192.0.2.55"


async def test_mail_by_webhook_lets_its_mailbox_wait(desk: Desk) -> None:
    inbox, postmark = await desk.inbox(), PROVIDERS["postmark"]
    await desk.source(postmark)
    rooms = desk.server.rooms
    new = NewMailbox(
        name="m", kind=MailboxKind.IMAP, account="a", config=b"x", push_source="postmark"
    )
    await rooms.database.write(mailboxes.add, ids.new("mbx"), new, _deed(rooms, TENANT))

    def pushed(tx: Any) -> Any:
        return tx.execute("SELECT pushed_at FROM oncebox_mailboxes")[0][0]

    assert await rooms.database.read(pushed) is None
    await desk.send(postmark, NOBODY)
    assert await rooms.database.read(pushed) is None
    await desk.send(postmark, inbox.email)
    assert await rooms.database.read(pushed) is not None


async def test_the_log_names_ids_and_never_the_mail(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    inbox, resend = await desk.inbox(), PROVIDERS["resend"]
    await desk.source(resend)
    caplog.set_level("DEBUG", logger="oncebox")
    desk.keeper.script.add("500")

    await desk.send(resend, inbox.email)
    await desk.send(resend, inbox.email)

    text = caplog.text + json.dumps([vars(one) for one in caplog.records], default=str)
    assert "inbound_mail_refused" in text
    for secret in ("123456", inbound.RESEND_KEY, inbound.WHSEC, inbox.email, "Ann"):
        assert secret not in text
