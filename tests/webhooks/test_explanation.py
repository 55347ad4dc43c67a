"""Explaining: each classic mistake is found by name."""

import json

import pytest

from oncebox.webhooks.explanation import explain
from oncebox.webhooks.scheme import SchemeOptions
from tests.webhooks import senders
from tests.webhooks.senders import BODY, NOW, SECONDS, Sent, b64, mac


def told(sent: Sent, *, now: int = NOW) -> str:
    sentences = explain(
        sent.table, sent.request, sent.secrets, now=now, options=sent.options, keys=sent.keys
    )
    return " ".join(sentences)


def make(name: str) -> Sent:
    return senders.SENDERS[name]()


@pytest.mark.parametrize("name", senders.SENDERS)
def test_what_holds_is_said_to_hold(name: str) -> None:
    assert told(make(name)).startswith("The signature holds.")


def test_the_secret_that_fits_is_named() -> None:
    assert "secret number 2" in told(make("github").but(secrets=("x", senders.SECRET)))


JSON = {"text": "é/\u2028", "id": "evt_1", "n": [1, {"b": 2, "a": 1}]}
SORTED = json.dumps(JSON, sort_keys=True, separators=(",", ":"))
SPELLINGS = {
    "compact": json.dumps(JSON, separators=(",", ":")),
    "python": json.dumps(JSON),
    "indented": json.dumps(JSON, indent=2),
    "unescaped": json.dumps(JSON, ensure_ascii=False, separators=(",", ":")),
    "slashes": json.dumps(JSON, separators=(",", ":")).replace("/", "\\/"),
}


@pytest.mark.parametrize("signed", SPELLINGS)
@pytest.mark.parametrize("received", SPELLINGS)
def test_a_body_that_was_written_again_is_named(signed: str, received: str) -> None:
    value = f"sha256={mac(SPELLINGS[signed].encode()).hex()}"
    sent = make("github").but(body=SPELLINGS[received].encode()).signed_as(value)

    expected = "The signature holds." if signed == received else "read as JSON and written again"
    assert expected in told(sent)


@pytest.mark.parametrize("received", SPELLINGS)
def test_a_body_whose_members_were_sorted_by_the_sender_is_named(received: str) -> None:
    value = f"sha256={mac(SORTED.encode()).hex()}"
    sent = make("github").but(body=SPELLINGS[received].encode()).signed_as(value)

    assert "read as JSON and written again" in told(sent)


@pytest.mark.parametrize("signed", SPELLINGS)
def test_a_body_whose_members_were_sorted_on_the_way_is_suspected(signed: str) -> None:
    value = f"sha256={mac(SPELLINGS[signed].encode()).hex()}"

    assert "are sorted" in told(make("github").but(body=SORTED.encode()).signed_as(value))


@pytest.mark.parametrize(
    ("signed", "received", "sentence"),
    [
        (BODY, BODY + b"\n", "a line end was added to the body"),
        (BODY, BODY + b"\r\n", "a line end was added to the body"),
        (BODY + b"\n", BODY, "the line end at the end of the body was lost"),
        (b"a\nb", b"a\r\nb", "changed to CR LF"),
        (b"a\r\nb", b"a\nb", "changed to LF"),
        (b"a", b"\xef\xbb\xbfa", "a byte order mark was put before"),
    ],
)
def test_changed_bytes_are_named(signed: bytes, received: bytes, sentence: str) -> None:
    sent = make("github").but(body=received).signed_as(f"sha256={mac(signed).hex()}")

    assert sentence in told(sent)


def test_a_wrong_secret_is_named() -> None:
    words = told(make("github").but(secrets=("another",)))

    assert "signature_mismatch" in words
    assert "most likely the secret is another endpoint's" in words


@pytest.mark.parametrize(
    ("name", "signed_with", "given", "sentence"),
    [
        ("github", "s3", " s3\n", "white space or a line end around it"),
        ("github", "s3", '"s3"', "quotation marks around it"),
        ("stripe", "whsec_abc", "abc", "give the secret whole"),
        ("outpost", "abc", "whsec_abc", "give the secret without it"),
    ],
)
def test_a_mishandled_secret_is_named(
    name: str, signed_with: str, given: str, sentence: str
) -> None:
    key = signed_with.encode()
    value = {
        "github": f"sha256={mac(BODY, key=key).hex()}",
        "stripe": f"t={SECONDS},v1={mac(SECONDS.encode() + b'.' + BODY, key=key).hex()}",
        "outpost": f"v0={mac(BODY, key=key).hex()}",
    }[name]

    assert sentence in told(make(name).but(secrets=(given,)).signed_as(value))


def test_a_key_that_was_derived_otherwise_is_named() -> None:
    """Polar's secrets are taken as they are written, others' are decoded first."""
    raw = senders.standard("standard-webhooks", secret="c2VjcmV0").but(
        headers=senders.standard("polar", secret="c2VjcmV0").headers
    )

    assert "taken as it is written" in told(raw)
    decoded = make("github").but(secrets=("c2VjcmV0",))
    value = f"sha256={mac(BODY, key=b'secret').hex()}"
    assert "decoded as base64 first" in told(decoded.signed_as(value))


def test_a_secret_of_the_wrong_shape_is_named() -> None:
    words = told(make("stripe").but(secrets=("sk_live_0123456789",)))

    assert "A secret of Stripe begins with whsec_" in words
    assert "sk_live" not in words


def test_the_wrong_header_is_named() -> None:
    headers = {"X-Hub-Signature": f"sha1={mac(BODY, 'sha1').hex()}"}
    words = told(make("github").but(headers=headers))

    assert "There is no header X-Hub-Signature-256." in words
    assert "X-Hub-Signature (scheme github-legacy)" in words
    assert "scheme stripe" in told(make("github").but(headers=make("stripe").headers))


def test_a_missing_prefix_is_named() -> None:
    words = told(make("github").signed_as(mac(BODY).hex()))

    assert "begins with sha256=" in words


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (f"sha256={b64(mac(BODY))}", "written in base64; github writes hex"),
        (f"sha256={mac(BODY).hex().upper()}", "written in HEX"),
        (f"sha256={mac(BODY, 'sha1').hex()}", "made with sha1"),
    ],
)
def test_another_spelling_or_hash_is_named(value: str, sentence: str) -> None:
    assert sentence in told(make("github").signed_as(value))


@pytest.mark.parametrize(
    "seen",
    [
        "http://hooks.example.com/in/abc?tenant=1",
        "http://10.0.0.1:8808/in/abc?tenant=1",
        "https://hooks.example.com/in/abc/?tenant=1",
    ],
)
@pytest.mark.parametrize("name", ["square", "hubspot", "twilio"])
def test_an_address_behind_a_proxy_is_named(name: str, seen: str) -> None:
    sent = make(name)
    headers = sent.headers | {"X-Forwarded-Host": "hooks.example.com"}
    words = told(sent.but(url=seen, headers=headers))

    assert "the sender signed the address https://hooks.example.com" in words
    assert "set the public URL to it" in words


def test_credentials_in_an_address_are_not_shown() -> None:
    sent = senders.mandrill()
    url = "https://user:pa55@hooks.example.com/in"
    content = url.encode() + b"a1"
    signed = sent.but(body=b"a=1", url=url.replace("https", "http")).signed_as(
        b64(mac(content, "sha1"))
    )
    words = told(signed)

    assert "https://…@hooks.example.com/in" in words
    assert "pa55" not in words


def test_a_clock_is_named() -> None:
    late = told(make("stripe"), now=NOW + 400_000)
    early = told(make("stripe"), now=NOW - 400_000)

    assert "stale" in late
    assert "400 s before the receive clock, and the window is 300 s" in late
    assert "future" in early
    assert "400 s after the receive clock" in early


def test_milliseconds_are_named() -> None:
    sent = make("slack")
    headers = sent.headers | {"X-Slack-Request-Timestamp": str(NOW)}

    assert "must be written in seconds since 1970" in told(sent.but(headers=headers))


def test_what_is_left_uncovered_or_doubled_is_named() -> None:
    json_body = {"Content-Type": "application/json"}
    twilio = make("twilio")
    assert "bodySHA256" in told(twilio.but(headers=twilio.headers | json_body))
    twice = {"x-hub-signature-256": "sha256=00"}
    assert "a second time" in told(make("github").but(headers=make("github").headers | twice))
    public = senders.standard_public()
    assert "whpk_ key for v1a" in told(make("svix").but(secrets=public.secrets))


def test_what_is_missing_is_named() -> None:
    assert "Give the secret" in told(make("github").but(secrets=()))
    assert "The body is empty" in told(make("github").but(body=b""))
    assert "must be fetched" in told(senders.sns().but(secrets=()))
    assert "Add the topic" in told(senders.sns().but(options=SchemeOptions()))
    assert "there is no encoding" in told(
        make("generic-hmac").but(options=SchemeOptions(encoding="x"))
    )
