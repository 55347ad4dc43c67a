"""Hostile headers and bodies: only what is promised comes out, whatever goes in."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncebox.errors import ConfigInvalid, KeyFetchRequired, KeyInvalid, SignatureInvalid
from oncebox.model.validation import check_key, check_type
from oncebox.webhooks import http_request, registry
from oncebox.webhooks.event_parsing import ParsedRequest, parse_events
from oncebox.webhooks.explanation import explain
from oncebox.webhooks.handshakes import answer_handshake
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.paths import json_field
from oncebox.webhooks.scheme import HandshakeReply, Scheme, SchemeOptions, SubscriptionConfirmation
from oncebox.webhooks.verification import REASONS, Verdict, verify
from tests.support.steps import steps
from tests.webhooks.senders import NOW, SENDERS, TOPIC, Sent, standard_public

ALL = [*(make() for make in SENDERS.values()), standard_public()]
SCHEMES = list(registry.BUILT_IN_SCHEMES.values())
NAMES = sorted(
    {name for sent in ALL for name in sent.headers}
    | {"content-type", "content-encoding", "webhook-id", "host", "x-forwarded-host"}
)
VALUES = sorted({value for sent in ALL for value in sent.headers.values()})
DEEP = b'{"a":' * 2_000 + b"1" + b"}" * 2_000
ODD = [
    b"", b"{", b"[]", b"{}", b"null", b"[[[[", DEEP, b"[" * 100_000, b"\xff\xfe", b"\x1f\x8b",
    b'{"id":"a","id":"b"}', b'{"id":1e999}', b'{"id":NaN}', b'{"id":"\\ud800"}', b"a;a;a;",
    b'{"id":' + b"9" * 10_000 + b"}", b"\xef\xbb\xbf{}", b"--x\r\n\r\n--x--", b"[1,2,3]",
    b'{"events":1}', b'{"entry":[{"changes":[{"value":{"messages":[{"id":{}}]}}]}]}',
    b'{"type":1}', b'{"type":"url_verification","challenge":"\\u0000"}',
    b'{"Type":"SubscriptionConfirmation","TopicArn":"x","SigningCertURL":null}',
    json.dumps({"signature": {"timestamp": 1, "token": "t", "signature": "s"}}).encode(),
]  # fmt: skip

text = st.text(st.characters(), max_size=40)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            text | st.sampled_from(["id", "type", "event", "signature", "data", "auth", "Type"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
bodies = (
    st.binary(max_size=200)
    | st.sampled_from(ODD)
    | st.sampled_from([sent.body for sent in ALL])
    | documents.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass"))
)
headers = st.lists(
    st.tuples(st.sampled_from(NAMES) | text, st.sampled_from(VALUES) | text), max_size=8
).map(tuple)
secrets = st.lists(
    text | st.sampled_from([secret for sent in ALL for secret in sent.secrets]), max_size=3
)
urls = text | st.sampled_from(["https://[::1", "https://x.test/?crc_token=a", "http://x:99999/"])
requests = st.builds(
    WebhookRequest,
    method=st.sampled_from(["POST", "GET", "HEAD", "post", ""]) | text,
    url=urls,
    headers=headers,
    body=bodies,
)
clocks = st.none() | st.integers(-(10**18), 10**18)
tunings = st.sampled_from(
    [
        SchemeOptions(),
        SchemeOptions(topics=(TOPIC,), verify_token="v"),
        SchemeOptions(allow_unsigned=True, window=1),
        SchemeOptions(public_url="https://[", id="header:x", type="form:a@.b", batch="$.events[*]"),
    ]
)
many = settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@many
@given(st.sampled_from(SCHEMES), requests, secrets, clocks, tunings)
def test_nothing_foreign_comes_out_of_a_verifier(
    scheme: Scheme,
    request: WebhookRequest,
    given_secrets: list[str],
    now: int | None,
    options: SchemeOptions,
) -> None:
    outcome = _outcome(lambda: verify(scheme, request, given_secrets, now=now, options=options))

    assert isinstance(outcome, Verdict) or outcome in REASONS
    assert outcome != "scheme_failed"


def _outcome(work: Callable[[], Verdict]) -> Verdict | str:
    """Return the verdict, or the reason; anything else flies out."""
    try:
        return work()
    except KeyFetchRequired:
        return "missing_secret"
    except SignatureInvalid as error:
        return error.reason


@many
@given(st.sampled_from(ALL), st.data())
def test_a_right_request_with_something_odd_in_it_raises_nothing_foreign(
    sent: Sent, data: st.DataObject
) -> None:
    """So that the later steps of a verifier meet odd things too."""
    name = data.draw(st.sampled_from([*sent.headers, "content-type", "X-Other"]))
    changed = sent.but(headers=sent.headers | {name: data.draw(text)})
    if data.draw(st.booleans()):
        changed = changed.but(body=data.draw(bodies))
    if data.draw(st.booleans()):
        changed = changed.but(secrets=tuple(data.draw(secrets)), url=data.draw(urls))
    now = data.draw(clocks)

    assert _outcome(lambda: changed.verify(now=now)) != "scheme_failed"


@many
@given(st.sampled_from(SCHEMES), requests, tunings)
def test_reading_never_fails_and_what_it_reads_can_be_stored(
    scheme: Scheme, request: WebhookRequest, options: SchemeOptions
) -> None:
    reading = parse_events(scheme, request, options)

    assert isinstance(reading, ParsedRequest)
    assert reading.events
    for event in reading.events:
        _check_storable(event.id, event.type)
        assert len(event.fingerprint) == 32
        assert 0 <= event.start <= event.start + event.size <= len(request.body)


def _check_storable(id_: str | None, type_: str) -> None:
    try:
        check_type(type_)
        if id_ is not None:
            check_key(id_)
    except KeyInvalid as error:  # pragma: no cover - the promise
        pytest.fail(str(error))


@many
@given(st.sampled_from(SCHEMES), requests, secrets, clocks, tunings)
def test_a_handshake_answers_or_does_not_and_never_fails(
    scheme: Scheme,
    request: WebhookRequest,
    given_secrets: list[str],
    now: int | None,
    options: SchemeOptions,
) -> None:
    try:
        reply = answer_handshake(scheme, request, given_secrets, now=now, options=options)
    except KeyFetchRequired:
        return
    assert reply is None or isinstance(reply, HandshakeReply | SubscriptionConfirmation)


@settings(many, max_examples=120)
@given(st.sampled_from(SCHEMES), requests, secrets, clocks, tunings)
def test_an_explanation_never_fails_and_never_tells_a_secret(
    scheme: Scheme,
    request: WebhookRequest,
    given_secrets: list[str],
    now: int | None,
    options: SchemeOptions,
) -> None:
    sentences = explain(scheme, request, given_secrets, now=now, options=options)

    assert sentences
    for secret in given_secrets:
        if len(secret) > 12 and secret not in request.url:
            assert not any(secret in sentence for sentence in sentences)


@many
@given(bodies, st.sampled_from(["$.id", "$.a.b", "$[0]", "$.a[0].b", "$", "$.signature@.x"]))
def test_a_field_is_text_a_whole_number_or_nothing(body: bytes, path: str) -> None:
    found = json_field(body, path)

    assert found is None or isinstance(found, str | int)


@given(text)
def test_an_odd_path_is_refused_and_no_body_is_looked_at(path: str) -> None:
    with suppress(ConfigInvalid):
        assert json_field(b"{}", path) is None


@settings(many, max_examples=200)
@given(st.sampled_from([sent for sent in ALL if sent.covers_body]), st.data())
def test_a_change_of_one_byte_of_the_body_is_refused(sent: Sent, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sent.body) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != sent.body[at]))
    body = sent.body[:at] + bytes([byte]) + sent.body[at + 1 :]
    if _same_form(sent, body):
        return

    with pytest.raises(SignatureInvalid):
        sent.but(body=body).verify(now=NOW)


def _same_form(sent: Sent, body: bytes) -> bool:
    """Forms are signed by their fields, and have several spellings of the same fields."""
    if sent.scheme not in {"twilio", "mandrill", "mandrill-inbound"}:
        return False
    return sorted(set(http_request.parse_urlencoded(body) or [])) == sorted(
        set(http_request.parse_urlencoded(sent.body) or [])
    )


@settings(many, max_examples=300)
@given(st.sampled_from([sent for sent in ALL if sent.signature]), st.data())
def test_a_change_of_one_character_of_the_signature_is_refused(
    sent: Sent, data: st.DataObject
) -> None:
    right = sent.headers[sent.signature]
    at = data.draw(st.integers(0, len(right) - 1))
    new = data.draw(st.characters().filter(lambda value: value != right[at]))
    changed = sent.signed_as(right[:at] + new + right[at + 1 :])
    if changed.headers[sent.signature].strip(" \t") == right or _same_words(sent, changed):
        return

    with pytest.raises((SignatureInvalid, KeyFetchRequired)):
        changed.verify(now=NOW)


def _same_words(sent: Sent, changed: Sent) -> bool:
    """``Basic`` and ``Bearer`` have no case."""
    name = sent.signature
    return sent.scheme in {"basic", "postmark", "postmark-inbound", "token"} and (
        sent.headers[name].partition(" ")[2] == changed.headers[name].partition(" ")[2]
        and sent.headers[name].lower() == changed.headers[name].lower()
    )


@pytest.mark.parametrize("count", [1, 9, 10_000])
def test_a_flood_of_signatures_costs_little(count: int) -> None:
    for sent in ALL:
        if not sent.signature:
            continue
        value: Any = ",".join(["v1=" + "0" * 64] * count)
        with pytest.raises((SignatureInvalid, KeyFetchRequired)):
            sent.signed_as(value).verify()


@pytest.mark.parametrize("start", [b"", b'content-disposition: form-data; name="a"'])
def test_a_flood_of_words_in_the_heads_of_parts_costs_little(start: bytes) -> None:
    head = (start + b"content-disposition: form-data;" * 400)[:8_000]
    body = b"".join(b"--b\r\n%b\r\n\r\nx\r\n" % head for _ in range(128)) + b"--b--\r\n"
    request = WebhookRequest(
        headers=(("content-type", "multipart/form-data; boundary=b"),), body=body
    )

    assert len(http_request.form_fields(request) or ()) == (128 if start else 0)
    assert steps(lambda: http_request.form_fields(request)) < 10_000


def test_a_part_is_named_only_where_a_line_begins() -> None:
    """Else each of many such words in one line would be looked at to the end of that line."""
    body = b'--b\r\nx: content-disposition: form-data; name="a"\r\n\r\nx\r\n--b--\r\n'
    request = WebhookRequest(
        headers=(("content-type", "multipart/form-data; boundary=b"),), body=body
    )

    assert not http_request.form_fields(request)
