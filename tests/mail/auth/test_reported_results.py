"""Results that a trusted server wrote: only its own first field counts."""

import pytest

from oncebox.mail.auth.reported_results import read_reported, reported_verdict
from oncebox.model.inboxes.message import sender_verdict
from oncebox.model.inboxes.received_mail import (
    ParsedMail,
    ParsedSender,
    ParseStatus,
    SenderStatus,
    SenderVerdict,
)

SERVER = "mx.example.net"


def verdict(*fields: str, author: str = "acme.com") -> SenderVerdict | None:
    raw = "".join(f"Authentication-Results: {each}\r\n" for each in fields) + "From: x\r\n\r\nhi"
    found = read_reported(raw.encode(), SERVER)
    return None if found is None else reported_verdict(found, author, SERVER)


def word(found: SenderVerdict | None, author: str = "acme.com") -> str:
    sender = ParsedSender(address=f"a@{author}", domain=author, standing=SenderStatus.SINGLE)
    parsed = ParsedMail(status=ParseStatus.PARSED, sender=sender)
    return sender_verdict(parsed, found or SenderVerdict())


@pytest.mark.parametrize(
    "field",
    [
        "mx.example.net; dmarc=pass header.from=acme.com",
        "mx.example.net 1; spf=fail smtp.mailfrom=x.org; dmarc=pass (p=NONE) header.from=acme.com",
        "MX.Example.NET; dkim=pass header.i=@mail.acme.com header.s=s1",
        "mx.example.net; spf=pass (sender (nested) is fine) smtp.mailfrom=bounce@acme.com",
        'mx.example.net; dkim=pass header.d="acme.com"',
        "mx.example.net;\r\n dkim=fail header.d=acme.com;\r\n dmarc=pass header.from=acme.com",
    ],
)
def test_a_trusted_server_proves_the_sender(field: str) -> None:
    found = verdict(field)

    assert (word(found), found and found.origin) == ("pass", SERVER)


@pytest.mark.parametrize(
    "field",
    [
        "mx.example.net; none",
        "mx.example.net; dmarc=fail header.from=acme.com",
        "mx.example.net; dkim=pass header.d=evil.example",
        "mx.example.net; dmarc=pass header.from=evil.example",
        "mx.example.net; spf=pass smtp.mailfrom=ann@evil.example",
        "mx.example.net; spf=softfail smtp.mailfrom=ann@acme.com",
        "mx.example.net; dkim=pass",
        "mx.example.net; dkim=pass header.d=acme.com; dmarc=fail header.from=acme.com",
        "mx.example.net; x=1 (dmarc=pass header.from=acme.com)",
    ],
)
def test_results_about_others_and_failures_prove_nothing(field: str) -> None:
    assert word(verdict(field)) in {"none", "fail"}


@pytest.mark.parametrize(
    "field",
    [
        "mx.example.net.evil.example; dmarc=pass header.from=acme.com",
        "evil.example; dmarc=pass header.from=acme.com",
        "(mx.example.net) evil.example; dmarc=pass header.from=acme.com",
        "evil.example mx.example.net; dmarc=pass header.from=acme.com",
        "; dmarc=pass header.from=acme.com",
    ],
)
def test_another_server_is_not_believed(field: str) -> None:
    assert verdict(field) is None


def test_only_the_first_field_of_the_server_counts() -> None:
    genuine = "mx.example.net; dmarc=fail header.from=acme.com"
    forged = "mx.example.net; dmarc=pass header.from=acme.com"

    assert word(verdict("other.example; spf=pass", genuine, forged)) == "fail"


def test_a_header_that_programs_split_differently_is_not_believed() -> None:
    raw = b"Authentication-Results: mx.example.net; dmarc=pass header.from=acme.com\r\nX: a\rb\r\n"

    assert read_reported(raw + b"\r\nhi", SERVER) is None
