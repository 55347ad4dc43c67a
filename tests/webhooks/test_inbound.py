"""Inbound providers as tables: mails from requests, whatever the request is."""

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.model.inboxes.received_mail import INBOUND_PROVIDERS
from oncebox.webhooks import inbound
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.inbound import InboundMail, MalformedInbound, S3Object
from tests.support.inbound import PROVIDERS as POSTING
from tests.support.inbound import Letter, multipart

BY_NAME = {each.name: each for each in inbound.PROVIDERS.values()}
RAW = b"Subject: x\r\n\r\nbody\r\n"
TYPES = st.sampled_from([
    "application/json", "application/x-www-form-urlencoded", "message/rfc822", "text/html", "",
    "multipart/form-data; boundary=x", "multipart/form-data",
])  # fmt: skip


def request(content_type: str, body: bytes) -> WebhookRequest:
    return WebhookRequest(headers=(("content-type", content_type),), body=body)


def posted(name: str, letter: Letter) -> InboundMail:
    """Return the mail of a request as the provider posts it."""
    sent = POSTING[name].post(letter)
    headers = tuple(sent.headers.items())
    (found,) = BY_NAME[name].parse(WebhookRequest(headers=headers, body=sent.body))
    return found


def test_every_provider_is_in_metrics_and_in_the_tables() -> None:
    assert tuple(sorted(BY_NAME)) == INBOUND_PROVIDERS
    assert set(POSTING) == set(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_answers_are_those_that_the_provider_understands(name: str) -> None:
    ours, theirs = BY_NAME[name].answers, POSTING[name]

    assert (ours.unrouted, ours.refused) == (theirs.unrouted, theirs.refused)
    assert (ours.temporary, ours.unverified) == (theirs.temporary, theirs.unverified)
    assert ours.meaning


@pytest.mark.parametrize("name", sorted(set(BY_NAME) - {"resend"}))
@given(raw=st.binary(min_size=1, max_size=300))
def test_the_bytes_of_a_mail_are_kept(name: str, raw: bytes) -> None:
    if name in {"postmark", "mandrill"}:  # JSON has no other bytes
        raw = raw.decode("utf-8", "replace").encode()
    if name in {"sendgrid", "mailgun"}:
        raw = raw.replace(b"--xYzZY", b"")

    assert posted(name, Letter(raw, ["a@oncebox.test"])).raw == (raw or None)


@pytest.mark.parametrize("name", BY_NAME)
@given(content_type=TYPES, body=st.binary(max_size=200))
def test_no_bytes_break_a_parser(name: str, content_type: str, body: bytes) -> None:
    with suppress(MalformedInbound):
        BY_NAME[name].parse(request(content_type, body))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from([
            "type", "data", "email_id", "to", "Message", "TopicArn", "notificationType",
            "receipt", "action", "content", "encoding", "RawEmail", "MessageID", "ToFull",
            "Email", "message", "base64", "rcpt_to", "event", "msg", "raw_msg",
        ]),
        inner, max_size=5,
    ),
    max_leaves=15,
)  # fmt: skip


@pytest.mark.parametrize("name", BY_NAME)
@given(value=_JSON)
def test_no_json_breaks_a_parser(name: str, value: Any) -> None:
    text = json.dumps(value)
    bodies = {
        "mandrill": multipart([("mandrill_events", text.encode())]).body,
        "ses": json.dumps({"Message": text}).encode(),
        "sendgrid": multipart([("envelope", text.encode()), ("email", RAW)]).body,
    }
    is_form = name in {"mandrill", "sendgrid"}
    kind = "multipart/form-data; boundary=xYzZY" if is_form else "application/json"
    with suppress(MalformedInbound):
        BY_NAME[name].parse(request(kind, bodies.get(name, text.encode())))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("a@b.c", "a@b.c"), ("Ann <a@b.c>", "a@b.c"), ('"<x@y>" <a@b.c> ', "a@b.c"),
        ("<>", ""), ("", ""), (" a@b.c ", "a@b.c"),
    ],
)  # fmt: skip
def test_an_address_is_taken_out_of_its_brackets(text: str, address: str) -> None:
    assert inbound.bare_address(text) == address


def test_a_recipient_that_cannot_be_one_is_left_out() -> None:
    found = posted("ses", Letter(RAW, ["a\x00b@c.d", "x" * 2_000, "a@b.c", "a@b.c"]))

    assert found.recipients == ("a@b.c",)


def test_inline_mail_of_ses_is_text_or_base64() -> None:
    def content(encoding: str | None, text: str) -> Any:
        action = {"type": "SNS", **({} if encoding is None else {"encoding": encoding})}
        message = {"notificationType": "Received", "receipt": {"action": action}, "content": text}
        body = json.dumps({"Message": json.dumps(message)}).encode()
        (found,) = inbound.parse_ses(request("text/plain", body))
        return found.raw

    coded = base64.b64encode(RAW).decode()
    assert content("BASE64", coded) == content("Base64", coded) == RAW
    assert content("UTF-8", RAW.decode()) == content(None, RAW.decode()) == RAW
    assert content(None, coded) == coded.encode()


def test_mail_in_s3_is_named_with_the_region_of_the_topic() -> None:
    found = posted("ses", Letter(RAW, ["a@b.c"], key="in/1"))

    assert found.raw == S3Object("mail-of-example", "in/1", "eu-west-1")


@pytest.mark.parametrize("as_form", [False, True])
def test_a_raw_message_of_postal_comes_as_json_or_as_a_form(as_form: bool) -> None:
    message = base64.encodebytes(RAW * 10)
    if as_form:
        form = multipart([
            ("rcpt_to", b"a@b.c"), ("mail_from", b"x@y.z"), ("message", message),
            ("base64", b"true"),
        ])  # fmt: skip
        (found,) = inbound.parse_postal(request(form.headers["content-type"], form.body))
    else:
        found = posted("postal", Letter(RAW * 10, ["a@b.c"]))

    assert (found.raw, found.recipients) == (RAW * 10, ("a@b.c",))
    assert not found.provider_id  # its numbers begin anew with a new mail server


@pytest.mark.parametrize(
    ("name", "secret", "fetches"),
    [
        ("resend", "re_123", True), ("resend", "whsec_re_123", False),
        ("ses", "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG", True),
        ("ses", "ASIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG:IQoJb3JpZ2luX2VjE", True),
        ("ses", "-----BEGIN CERTIFICATE-----\nAAAA\n", False), ("postmark", "re_123:x", False),
    ],
)  # fmt: skip
def test_a_key_for_fetching_is_told_from_a_secret(name: str, secret: str, fetches: bool) -> None:
    assert BY_NAME[name].is_fetch_key(secret) is fetches
