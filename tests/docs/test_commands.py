"""What the pages say can be typed and run, works as it stands there: without a service."""

import asyncio
import hashlib
import hmac
import json
import tomllib
from typing import Any

import pytest
import stripe
from starlette.requests import Request

from oncebox.box import Oncebox
from oncebox.cli.output import failures
from oncebox.core import clock
from oncebox.model.deliveries.delivery import Delivery
from oncebox.settings_loading import load_settings
from oncebox.webhooks.scheme import Scheme
from oncebox.workers.deliveries.once import Once
from tests.docs.page import blocks
from tests.docs.reader import Reader, run_awaiting
from tests.docs.reference import DOCS
from tests.support import certificates

CODE = (
    b"From: Shop <no-reply@shop.example>\r\nTo: ann@oncebox.test\r\nSubject: Your code\r\n"
    b"Message-ID: <1@shop.example>\r\nDate: Mon, 02 Mar 2026 10:00:00 +0000\r\n\r\n"
    b"Your verification code is 481920.\r\n"
)


@pytest.fixture
def reader_with_mail(reader: Reader) -> Reader:
    """Somebody who has saved a mail, as the pages call it."""
    (reader.folder / "message.eml").write_bytes(CODE)
    return reader


def test_the_commands_about_keys_and_tenants(reader: Reader) -> None:
    keys, tenants, _proxy, _master = blocks(DOCS / "security.md", "sh")
    *new, listed, revoke = keys.splitlines()

    assert all("obx_" in reader.type(each) for each in new)
    assert "ada, laptop" in reader.type(listed)
    first, *others = reader.ids("key", "list")
    reader.type(revoke, key=first)
    assert len(others) == 2
    assert "obx_" in reader.type(tenants, stdin=b"whsec_1\n")


def test_the_commands_about_keys_for_agents(reader: Reader) -> None:
    _install, keys = blocks(DOCS / "mcp.md", "sh")

    assert reader.type(keys).count("obx_") == 2


def test_the_command_about_an_imap_server_with_a_certificate_of_its_own(reader: Reader) -> None:
    (add,) = blocks(DOCS / "imap.md", "sh")
    certificates.make(reader.folder)
    text = (reader.folder / "certificate.pem").read_text()
    (reader.folder / "ca.pem").write_text(text[text.index("-----BEGIN CERTIFICATE") :])
    (reader.folder / "password").write_text("s3cret")
    (inbox,) = reader.ids("inbox", "new", "--attempt", "a-1")

    assert "ann at mail.example.com" in reader.type(add, inb=inbox)


def test_the_commands_about_mail_by_webhook(reader: Reader) -> None:
    add, fetched = blocks(DOCS / "inbound-webhooks.md", "sh")
    reader.set(POSTMARK_LOGIN="user:password", MAILGUN_KEY="key", AWS_MAIL_KEY="A:b")
    reader.set(RESEND_WEBHOOK_SECRET="whsec_1", RESEND_API_KEY="re_1")

    reader.type(add, inb="inb_1")
    reader.type(fetched)

    assert {"mail", "support", "ses", "resend"} <= set(reader.ids("source", "list"))


def test_the_commands_about_sources(reader: Reader) -> None:
    add, secrets, change, _verify = blocks(DOCS / "sources.md", "sh")
    file, _entry = blocks(DOCS / "sources.md", "toml")
    reader.set(STRIPE_SECRET="whsec_1", STRIPE_SECRET_2="whsec_2")
    (reader.folder / "secret.txt").write_text("s3cret\n")
    added, listed, retire = secrets.splitlines()

    assert "stripe" in reader.type(add)
    reader.type(added)
    assert "env:STRIPE_SECRET_2" in reader.type(listed)
    reader.type(retire, sec=reader.ids("source", "secret", "list", "stripe")[-1])
    reader.type(change)

    shop = reader.folder / "shop"
    shop.write_text("s3cret\n")
    (reader.folder / "oncebox.toml").write_text(file.replace("/run/secrets/shop", str(shop)))
    assert {"shop", "stripe"} <= set(reader.ids("source", "list"))


def test_the_commands_about_domains(reader: Reader) -> None:
    _send, add, catch_all, listed = blocks(DOCS / "smtp.md", "sh")
    (records,) = blocks(DOCS / "smtp.md", "text")

    printed = reader.type(add)
    assert [" ".join(line.split()) for line in records.splitlines()] == [
        " ".join(line.split()) for line in printed.splitlines()[-2:]
    ]
    reader.type(catch_all)
    assert "all.example.com" in reader.type(listed)
    assert "inbox.example.com" not in reader.ids("domain", "list")


def test_the_commands_about_inboxes(reader: Reader) -> None:
    block, _messages = blocks(DOCS / "inboxes.md", "sh")
    new, listed, show = block.splitlines()

    assert "@oncebox.test" in reader.type(new)
    assert "signup-4821" in reader.type(listed)
    (inbox,) = reader.ids("inbox", "list")
    assert "signup-4821" in reader.type(show, inb=inbox)


def test_the_commands_about_reading_mail(reader_with_mail: Reader) -> None:
    reader = reader_with_mail
    (parse,) = blocks(DOCS / "mail.md", "sh")
    _claim, extract = blocks(DOCS / "extraction.md", "sh")

    assert "shop.example" in reader.type(parse)
    assert reader.type(extract).count("481920") >= 2


def test_the_commands_and_settings_about_who_sent_it(reader_with_mail: Reader) -> None:
    reader = reader_with_mail
    (authenticate,) = blocks(DOCS / "mail-senders.md", "sh")
    (file,) = blocks(DOCS / "mail-senders.md", "toml")

    # An address for documentation is private to us: nobody is asked.
    assert "nothing_to_judge" in reader.type(authenticate, code=failures.ERROR)
    (reader.folder / "oncebox.toml").write_text(file)
    assert load_settings().mail.authenticate


def test_the_commands_about_links(reader: Reader) -> None:
    (block,) = blocks(DOCS / "links.md", "sh")
    case = {"id": "1", "url": "https://app.example.com/", "allow": ["app.example.com"]}
    (reader.folder / "cases.jsonl").write_text(json.dumps(case) + "\n")

    assert "app.example.com" in reader.type(block.replace("token=…", "token=aB3dE6gH9"))


def test_the_commands_and_programs_about_signatures(reader: Reader) -> None:
    *_, verify = blocks(DOCS / "sources.md", "sh")
    check, table = blocks(DOCS / "sources.md", "python")
    _file, entry = blocks(DOCS / "sources.md", "toml")
    body = b'{"zen": "Keep it logically awesome."}'
    (reader.folder / "push.json").write_bytes(body)
    reader.set(GITHUB_SECRET="s3cret")
    digest = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()

    assert "valid" in reader.type(verify.replace("sha256=…", f"sha256={digest}"))
    assert isinstance(reader.run(table)["SCHEME"], Scheme)
    assert tomllib.loads(entry)["project"]["entry-points"]["oncebox.schemes"]
    asyncio.run(run_awaiting(check, {"request": _signed(b'{"id": "evt_1"}'), "secret": "whsec_1"}))


def _signed(body: bytes) -> Request:
    """Return a request as a framework hands it over, signed by Stripe."""
    now = clock.system() // 1000
    signature = stripe.WebhookSignature._compute_signature(f"{now}.{body.decode()}", "whsec_1")
    headers = [(b"stripe-signature", f"t={now},v1={signature}".encode())]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


def test_the_effect_on_the_page_of_concepts(reader: Reader) -> None:
    (code,) = blocks(DOCS / "concepts.md", "python")
    opened: list[str] = []

    async def main() -> None:
        box, done = Oncebox(), asyncio.Event()

        @box.on("shop")
        async def handle(delivery: Delivery, once: Once) -> None:
            await run_awaiting(code, {"once": once, "create_issue": create_issue})
            done.set()

        def create_issue(title: str) -> None:
            opened.append(title)

        async with box:
            await box.accept("shop", key="1")
            await asyncio.wait_for(done.wait(), 30)

    asyncio.run(main())
    assert opened == ["Paid"]


def test_the_commands_for_monitoring_and_troubleshooting(reader: Reader) -> None:
    doctor, key = blocks(DOCS / "monitoring.md", "sh")
    looks = blocks(DOCS / "troubleshooting.md", "sh")

    reader.type(key)
    assert (reader.folder / "oncebox-key").read_text().startswith("obx_")
    assert reader.type(doctor) == ""
    assert len(looks) >= 4
    for block in looks:
        reader.type(block)


def test_the_commands_about_mail_by_resend(reader: Reader) -> None:
    transport, source, _exports = blocks(DOCS / "resend.md", "sh")
    reader.set(RESEND_API_KEY="re_test", RESEND_WEBHOOK_SECRET="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2Lk")

    reader.type(source)
    reader.type(transport)
    assert reader.ids("transport", "list") == ["resend"]


def test_the_commands_about_the_proxy_and_the_master_key(reader: Reader) -> None:
    *_, proxy, master = blocks(DOCS / "security.md", "sh")

    reader.type(proxy)
    assert load_settings().http.proxies == "127.0.0.1"
    reader.type(master)
    reader.set(
        ONCEBOX_MASTER_KEY="",
        ONCEBOX_MASTER_KEY_FILE=str(reader.folder / "oncebox-key"),
        ONCEBOX_DATABASE_URL=f"sqlite://{reader.folder}/another.db",
    )
    assert "nothing" not in reader.type("oncebox migrate")
