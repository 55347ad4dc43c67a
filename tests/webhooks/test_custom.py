"""Providers that no table can describe, and their traps."""

import hashlib
import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from oncebox.errors import KeyFetchRequired, SignatureInvalid
from oncebox.webhooks import registry
from oncebox.webhooks.custom.twilio_mandrill import hubspot_url_variants, twilio_url_variants
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.scheme import SchemeOptions
from oncebox.webhooks.verification import verify
from tests.webhooks import senders
from tests.webhooks.senders import BODY, NOW, SECONDS, SECRET, URL, Sent, b64, mac
from tests.webhooks.test_verification import refusal


def twilio(url: str, content: bytes, body: bytes, kind: str) -> Sent:
    return senders.twilio().but(
        headers={"X-Twilio-Signature": b64(mac(content, "sha1")), "Content-Type": kind},
        url=url,
        body=body,
    )


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("seen", "signed"),
    [
        ("https://x.test/a", "https://x.test/a"),
        ("https://x.test/a", "https://x.test:443/a"),
        ("https://x.test:8443/a", "https://x.test/a"),
        ("http://x.test/a", "http://x.test:80/a"),
        ("http://x.test:80/a?b", "http://x.test/a?b"),
        ("https://u:p@x.test/a", "https://u:p@x.test:443/a"),
        ("https://u:p@x.test:1/a", "https://u:p@x.test/a"),
        ("https://x.test/a?q=It's", "https://x.test/a?q=It%27s"),
        ("https://[::1]/a", "https://[::1]:443/a"),
    ],
)
def test_twilio_may_add_or_drop_the_port_and_escape_quotes(seen: str, signed: str) -> None:
    assert twilio(seen, signed.encode() + b"A1", b"A=1", FORM).verify().secret_index == 0


@pytest.mark.parametrize(
    "seen", ["http://x.test/a", "https://y.test/a", "https://x.test/A", "https://x.test/a?", ""]
)
def test_twilio_signs_one_address(seen: str) -> None:
    assert refusal(twilio(seen, b"https://x.test/aA1", b"A=1", FORM)) == "signature_mismatch"


def test_twilio_sorts_fields_and_drops_doubles() -> None:
    url = "https://x.test/a"
    content = url.encode() + b"A" + b"B1B2" + "cé".encode()

    assert twilio(url, content, b"B=2&c=%C3%A9&B=1&A=&B=2", FORM).verify().secret_index == 0


def test_twilio_covers_json_by_a_hash_in_the_address() -> None:
    url = f"https://x.test/a?bodySHA256={hashlib.sha256(BODY).hexdigest()}"
    sent = twilio(url, url.encode(), BODY, "application/json")

    assert sent.verify().secret_index == 0
    assert refusal(sent.but(body=BODY + b" ")) == "body_hash_mismatch"
    assert refusal(sent.but(body=b"")) == "body_hash_mismatch"
    form = sent.headers | {"Content-Type": FORM}
    assert refusal(sent.but(body=b"", headers=form)) == "body_hash_mismatch"
    twice = f"{url}&bodySHA256={hashlib.sha256(b'').hexdigest()}"
    assert refusal(twilio(twice, twice.encode(), b"", FORM)) == "body_hash_mismatch"


def test_twilio_leaves_no_body_uncovered() -> None:
    url = "https://x.test/a"

    assert refusal(twilio(url, url.encode(), BODY, "application/json")) == "body_not_covered"
    assert twilio(url, url.encode(), b"", "").but(method="GET").verify().secret_index == 0


def test_twilio_behind_a_proxy_needs_its_public_address() -> None:
    sent = twilio("https://x.test/a?q=1", b"https://x.test/a?q=1A1", b"A=1", FORM)
    inside = sent.but(url="http://10.0.0.7:8808/a?q=1")

    assert refusal(inside) == "signature_mismatch"
    tuned = inside.but(options=SchemeOptions(public_url="https://x.test/a"))
    assert tuned.verify().secret_index == 0


def test_twilio_may_be_set_to_a_stronger_hash() -> None:
    content = f"{URL}A1".encode()
    sent = senders.twilio().but(body=b"A=1").signed_as(b64(mac(content, "sha256")))

    assert refusal(sent) == "signature_mismatch"
    assert sent.but(options=SchemeOptions(algorithm="sha256")).verify().secret_index == 0


def test_a_strange_address_has_one_spelling() -> None:
    assert twilio_url_variants("https://[::1/a") == ("https://[::1/a",)
    assert twilio_url_variants("") == ("",)


def test_hubspot_undoes_some_escapes() -> None:
    assert hubspot_url_variants("https://x.test/a?b=%3a%2F%20") == (
        "https://x.test/a?b=%3a%2F%20",
        "https://x.test/a?b=:/%20",
    )


def test_mandrill_signs_credentials_in_the_address() -> None:
    url = "https://user:pass@x.test/m"
    content = f"{url}a1b2".encode()
    sent = senders.mandrill().but(url=url, body=b"b=2&a=1").signed_as(b64(mac(content, "sha1")))

    assert sent.verify().secret_index == 0
    assert refusal(sent.but(url="https://x.test/m")) == "signature_mismatch"


def test_mailgun_counts_the_last_of_repeated_fields() -> None:
    sent = senders.mailgun_inbound()

    assert (
        sent.but(body=b"token=x&signature=00&timestamp=1&" + sent.body).verify().secret_index == 0
    )
    assert refusal(sent.but(body=sent.body + b"&token=x"))


def test_mailgun_reads_multipart_too() -> None:
    sent = senders.mailgun_inbound()
    fields = dict(pair.split("=") for pair in sent.body.decode().split("&"))
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    file = '--b\r\ncontent-disposition: form-data; name="token"; filename="x"\r\n\r\nevil\r\n'
    body = "".join([*parts, file, "--b--\r\n"]).encode()
    headers = {"Content-Type": 'multipart/form-data; boundary="b"'}

    assert sent.but(body=body, headers=headers).verify().secret_index == 0
    assert refusal(sent.but(body=body, headers={"Content-Type": "multipart/form-data"}))


@pytest.mark.parametrize("cut", [1, 5, 9, 11])
def test_mailgun_s_token_cannot_be_cut_elsewhere(cut: int) -> None:
    """Time and token are signed as one text; else each signature would be worth many tokens."""
    token = "0123456789abcdef"
    both = SECONDS + token
    block = {"timestamp": SECONDS, "token": token, "signature": senders.mac(both.encode()).hex()}
    moved = block | {"timestamp": both[:cut], "token": both[cut:]}
    events = senders.mailgun().but(body=json.dumps({"signature": block}).encode())
    inbound = senders.mailgun_inbound().but(body=senders.form(block))

    assert (events.verify().secret_index, inbound.verify().secret_index) == (0, 0)
    assert refusal(events.but(body=json.dumps({"signature": moved}).encode()))
    assert refusal(inbound.but(body=senders.form(moved)))


def test_mailgun_accepts_the_parent_accounts_signature() -> None:
    sent = senders.mailgun()
    content = json.loads(sent.body)
    content["signature"]["parent-signature"] = content["signature"]["signature"]
    content["signature"]["signature"] = "0" * 64

    assert sent.but(body=json.dumps(content).encode()).verify().secret_index == 0


@pytest.mark.parametrize(
    "block",
    [None, {}, [], {"timestamp": SECONDS, "token": "t"}, {"timestamp": [], "token": 1}],
)
def test_mailgun_without_its_block_is_refused(block: object) -> None:
    body = json.dumps({"signature": block}).encode()

    assert refusal(senders.mailgun().but(body=body)) == "malformed_body"


def test_unisender_hashes_raw_bytes() -> None:
    sent = senders.unisender()

    assert refusal(sent.but(body=json.dumps(json.loads(sent.body)).encode()))
    assert refusal(sent.but(body=b'{"auth":"' + b"0" * 32 + b'"}')) == "signature_mismatch"
    doubled = b'{"auth":"' + b"0" * 32 + b'","x":"' + b"0" * 32 + b'"}'
    assert refusal(sent.but(body=doubled)) == "malformed_body"


def hook0(value: str) -> Sent:
    return senders.hook0().signed_as(value)


def test_hook0_takes_the_stronger_of_two_versions() -> None:
    weak = mac(f"{SECONDS}.".encode() + BODY).hex()
    strong = senders.hook0().headers["X-Hook0-Signature"]

    assert hook0(f"t={SECONDS},v0={weak}").verify().secret_index == 0
    assert hook0(f"{strong},v0={'0' * 64}").verify().secret_index == 0
    broken = strong[:-1] + ("0" if strong[-1] != "0" else "1")
    assert refusal(hook0(f"{broken},v0={weak}")) == "signature_mismatch"


def test_hook0_covers_the_headers_it_names() -> None:
    sent = senders.hook0()

    assert refusal(sent.but(headers=sent.headers | {"X-Event-Id": "evt_2"}))
    without = {name: value for name, value in sent.headers.items() if name != "X-Event-Id"}
    assert refusal(sent.but(headers=without)) == "missing_header"
    swapped = sent.headers["X-Hook0-Signature"].replace(
        "x-event-id x-event-type", "x-event-type x-event-id"
    )
    assert refusal(sent.signed_as(swapped)) == "signature_mismatch"


@pytest.mark.parametrize(
    "value",
    [
        "t=1", f"v1={'0' * 64}", f"t={SECONDS}", f"t={SECONDS},v1=", f"t={SECONDS},h=a b,v1=00",
        f"t={SECONDS},h={' '.join('a' * 65)},v1=00", f"t={SECONDS},h=\udcff,v1=00",
        f"t={SECONDS},v0=00,v0=01", "=", ",", "v0",
    ],
)  # fmt: skip
def test_an_odd_hook0_signature_is_refused(value: str) -> None:
    assert refusal(hook0(value))


# --------------------------------------------------------------------------------------- Plaid


def plaid(head: dict[str, object] | None = None, claims: dict[str, object] | None = None) -> Sent:
    sent = senders.plaid()
    heads = {"alg": "ES256", "kid": "k1", "typ": "JWT"} | (head or {})
    claim = {"iat": NOW // 1000, "request_body_sha256": hashlib.sha256(BODY).hexdigest()}
    return sent.signed_as(senders.jwt(heads, claim | (claims or {})))


def test_plaid_asks_for_a_key_it_does_not_have() -> None:
    with pytest.raises(KeyFetchRequired) as caught:
        senders.plaid().but(secrets=()).verify()

    assert caught.value.name == "k1"


@pytest.mark.parametrize(
    "kid", ["https://keys.example.net/k1", "//keys.example.net/k1", "k1?", "k" * 65, "", "\u00e9"]
)
def test_plaid_names_a_key_and_never_an_address(kid: str) -> None:
    """Else whoever asks says where the key is fetched that he is judged by."""
    key = json.dumps(senders.jwk() | {"kid": kid})

    assert refusal(plaid({"kid": kid}).but(secrets=(), keys={kid: key})) == "malformed_signature"
    assert refusal(plaid({"kid": kid}).but(secrets=(), keys={})) == "malformed_signature"


def test_plaid_uses_a_fetched_key() -> None:
    sent = senders.plaid().but(secrets=("client:secret",), keys={"k1": json.dumps(senders.jwk())})

    assert sent.verify().secret_index == -1
    wrong = json.dumps(senders.jwk() | {"kid": "k2"})
    assert refusal(sent.but(keys={"k1": wrong})) == "unusable_secret"
    assert refusal(sent.but(keys={"k1": "{}"})) == "unusable_secret"


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256", "es256", ""])
def test_plaid_has_one_algorithm(algorithm: str) -> None:
    assert refusal(plaid({"alg": algorithm})) == "wrong_algorithm"


def test_a_plaid_token_with_demands_is_refused() -> None:
    assert refusal(plaid({"crit": ["b64"]})) == "wrong_algorithm"


def test_an_expired_plaid_key_is_refused() -> None:
    def expired(at: int) -> Sent:
        key = json.dumps(senders.jwk() | {"expired_at": at})
        return senders.plaid().but(secrets=(key,))

    assert refusal(expired(NOW // 1000)) == "expired_key"
    assert expired(NOW // 1000 + 1).verify().secret_index == 0


def test_plaid_covers_the_body_by_its_hash() -> None:
    assert refusal(plaid(claims={"request_body_sha256": "0" * 64})) == "body_hash_mismatch"
    assert refusal(plaid(claims={"request_body_sha256": None})) == "malformed_signature"
    assert refusal(plaid(claims={"iat": "now"})) == "malformed_signature"


# ----------------------------------------------------------------------------------------- SNS


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", ["hi", "", None])
def test_sns_signs_what_is_there(version: str, subject: str | None) -> None:
    assert senders.sns(version, Subject=subject).verify().secret_index == 0


@pytest.mark.parametrize("version", ["3", "0", ""])
def test_sns_has_two_versions(version: str) -> None:
    assert refusal(senders.sns(version)) == "wrong_algorithm"


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.net/x.pem",
        "https://sns.us-east-1.amazonaws.com.evil.example.net/SimpleNotificationService-a.pem",
        "https://s3.amazonaws.com/sns.us-east-1/SimpleNotificationService-a.pem",
        "https://sns.us-east-1.amazonaws.com@evil.example.net/SimpleNotificationService-a.pem",
        "http://sns.us-east-1.amazonaws.com/SimpleNotificationService-a.pem",
        "https://sns.us-east-1.amazonaws.com:8443/SimpleNotificationService-a.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-a.pem?y",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-a.pem\n",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-a.pem#.pem",
        "https://sns.us-east-1.amazonaws.com/x/../SimpleNotificationService-a.pem",
        "https://sns.us-east-1.amazonaws.com/a.pem",
        "https://SNS.us-east-1.amazonaws.com/SimpleNotificationService-a.pem",
        "",
    ],
)
def test_a_certificate_comes_from_its_pinned_address_only(url: str) -> None:
    assert refusal(senders.sns(SigningCertURL=url)) == "untrusted_certificate"
    assert refusal(senders.sns(SigningCertURL=url).but(secrets=())) == "untrusted_certificate"


def test_sns_asks_for_a_certificate_it_does_not_have() -> None:
    sent = senders.sns().but(secrets=())
    with pytest.raises(KeyFetchRequired) as caught:
        sent.verify()

    assert caught.value.name == senders.CERTIFICATE_URL
    fetched = sent.but(keys={senders.CERTIFICATE_URL: senders.certificate()})
    assert fetched.verify().secret_index == -1
    assert refusal(sent.but(keys={senders.CERTIFICATE_URL: "x"})) == "unusable_certificate"


def test_china_has_its_own_certificates() -> None:
    url = "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-a.pem"

    assert senders.sns(SigningCertURL=url).verify().secret_index == 0


@pytest.mark.parametrize("days", [-101, 101])
def test_a_certificate_is_judged_by_the_receive_clock(days: int) -> None:
    assert refusal(senders.sns(), now=NOW + days * 86_400_000) == "expired_certificate"


def test_no_certificate_is_asked_for_where_the_topic_is_a_stranger_s() -> None:
    sent = senders.sns(TopicArn="arn:aws:sns:us-east-1:999999999999:other").but(secrets=())

    assert refusal(sent) == "topic_not_allowed"


def test_only_listed_topics_are_let_in() -> None:
    assert refusal(senders.sns().but(options=SchemeOptions())) == "topic_not_allowed"
    other = "arn:aws:sns:us-east-1:210987654321:orders"
    assert refusal(senders.sns(TopicArn=other)) == "topic_not_allowed"


@pytest.mark.parametrize("name", ["Message", "MessageId", "Timestamp", "TopicArn", "Type"])
def test_every_line_of_sns_is_covered(name: str) -> None:
    content = json.loads(senders.sns().body)
    changed = json.dumps(content | {name: f"{content[name]}x"}).encode()
    without = json.dumps({key: value for key, value in content.items() if key != name}).encode()

    assert refusal(senders.sns().but(body=changed))
    assert refusal(senders.sns().but(body=without))


@pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b"{", b"{}", b'{"SigningCertURL":1}'])
def test_a_body_that_is_no_sns_message_is_refused(body: bytes) -> None:
    assert refusal(senders.sns().but(body=body)) == "malformed_body"


# -------------------------------------------------------------------------------- the others


def test_linear_is_dated_by_its_body_and_only_then_by_a_header() -> None:
    sent = senders.linear()
    fresh_header = {"Linear-Timestamp": str(NOW + 3_600_000)}

    late = sent.but(headers=sent.headers | fresh_header).verify(now=NOW + 3_600_000)
    assert late.freshness == "late"
    body = b'{"type":"Issue"}'
    undated = sent.but(body=body, headers={"Linear-Signature": mac(body).hex()})
    assert undated.verify().freshness == "undated"
    headers = {"Linear-Signature": mac(body).hex()} | fresh_header
    assert undated.but(headers=headers).verify(now=NOW + 3_600_000).freshness == "fresh"


def test_outpost_marks_the_list_and_not_its_entries() -> None:
    right = mac(BODY).hex()
    sent = senders.SENDERS["outpost"]()

    assert sent.signed_as(f"v0={'0' * 64},{right}").verify().secret_index == 0
    assert refusal(sent.signed_as(f"{'0' * 64},v0={right}")) == "malformed_signature"
    assert refusal(sent.signed_as(f"v0={'0' * 64},v0={right}")) == "signature_mismatch"


def test_hookdeck_has_a_second_header_while_secrets_change() -> None:
    sent = senders.SENDERS["hookdeck"]()
    right = sent.headers["x-hookdeck-signature"]
    headers = {"x-hookdeck-signature": b64(bytes(32)), "x-hookdeck-signature-2": right}

    assert sent.but(headers=headers).verify().secret_index == 0


def test_whsec_means_what_each_provider_means() -> None:
    """For Stripe and Outpost it is part of the key, for Standard Webhooks it is not."""
    secret = "whsec_YWJj"
    stripe = senders.SENDERS["stripe"]().but(secrets=(secret,))
    value = mac(SECONDS.encode() + b"." + BODY, key=secret.encode()).hex()
    outpost = senders.SENDERS["outpost"]().but(secrets=(secret,))

    assert stripe.signed_as(f"t={SECONDS},v1={value}").verify().secret_index == 0
    assert (
        outpost.signed_as(f"v0={mac(BODY, key=secret.encode()).hex()}").verify().secret_index == 0
    )
    assert senders.standard("svix", secret=secret).verify().secret_index == 0
    polar = senders.standard("polar", secret="raw")
    assert polar.verify().secret_index == 0


@pytest.mark.parametrize("word", ["Basic", "basic", "BASIC"])
def test_basic_is_a_word_without_case(word: str) -> None:
    credentials = b64(b"user:pass:word")

    assert senders.basic("basic").signed_as(f"{word} {credentials}").verify().secret_index == 0


@pytest.mark.parametrize(
    "value", ["Basic", "Basic ", "Bearer x", "Basic wrongbase64str", "Basic dXNlcjpwYXNz", "x"]
)
def test_other_credentials_are_refused(value: str) -> None:
    assert refusal(senders.basic("basic").signed_as(value))


def test_a_token_may_stand_in_any_header() -> None:
    sent = senders.token("token", "X-Key").but(options=SchemeOptions(header="X-Key"))

    assert sent.verify().secret_index == 0
    assert refusal(sent.but(options=SchemeOptions())) == "missing_header"
    assert senders.token("token", "Authorization", "token-1").verify().secret_index == 0


def test_a_token_may_have_any_characters() -> None:
    for value in ("t\u00f6ken", "t\u00f6ken".encode().decode("latin-1")):
        assert senders.token("gitlab", "X-Gitlab-Token", value).but(
            secrets=("t\u00f6ken",)
        ).verify().secret_index == 0  # fmt: skip


GENERIC: list[tuple[SchemeOptions, Callable[[], dict[str, str]]]] = [
    (SchemeOptions(algorithm="sha1"), lambda: {"X-Signature": mac(BODY, "sha1").hex()}),
    (
        SchemeOptions(algorithm="sha512"),
        lambda: {"X-Signature": f"sha512={mac(BODY, 'sha512').hex()}"},
    ),
    (SchemeOptions(encoding="base64", prefix=""), lambda: {"X-Signature": b64(mac(BODY))}),
    (SchemeOptions(encoding="HEX"), lambda: {"X-Signature": mac(BODY).hex().upper()}),
    (SchemeOptions(header="X-Sig", prefix="v9:"), lambda: {"X-Sig": f"v9:{mac(BODY).hex()}"}),
    (
        SchemeOptions(content="{timestamp}:{body}", timestamp="X-Time", window=60),
        lambda: {"X-Signature": mac(f"{SECONDS}:".encode() + BODY).hex(), "X-Time": SECONDS},
    ),
    (
        SchemeOptions(content="{method} {url} {header:X-Id} {body}"),
        lambda: {"X-Signature": mac(f"POST {URL} 7 ".encode() + BODY).hex(), "X-Id": "7"},
    ),
    (SchemeOptions(separator=";"), lambda: {"X-Signature": f"x;sha256={mac(BODY).hex()}"}),
]


@pytest.mark.parametrize(("options", "headers"), GENERIC)
def test_a_plain_hmac_can_be_described(
    options: SchemeOptions, headers: Callable[[], dict[str, str]]
) -> None:
    sent = Sent("generic-hmac", headers(), options=options)

    assert sent.verify().secret_index == 0
    assert refusal(sent.but(body=BODY + b" ")) == "signature_mismatch"


def test_options_nobody_can_use_fail_closed() -> None:
    for options in (
        SchemeOptions(algorithm="md5"),
        SchemeOptions(encoding="x"),
        SchemeOptions(content="{x}"),
    ):
        sent = Sent("generic-hmac", {"X-Signature": mac(BODY).hex()}, options=options)
        assert refusal(sent) == "unusable_options"


def test_a_secret_of_any_characters_is_a_secret() -> None:
    key = "\udcff\U0001f4e6"
    value = mac(BODY, key=key.encode("utf-8", "surrogatepass")).hex()
    sent = senders.SENDERS["github"]().but(secrets=(key,)).signed_as(f"sha256={value}")

    assert sent.verify().secret_index == 0


def test_a_verifier_that_fails_is_refused_by_a_name_of_its_own() -> None:
    def broken(_attempt: object) -> None:
        raise ZeroDivisionError

    scheme = replace(registry.find_scheme("github"), verifier=broken)
    with pytest.raises(SignatureInvalid, match="scheme_failed"):
        verify(scheme, WebhookRequest(), [SECRET], now=NOW)


def test_a_wrong_newer_signature_of_postal_is_not_excused_by_the_older() -> None:
    newer, older = senders.postal(), senders.postal_older()
    both = newer.but(headers=newer.headers | older.headers)
    wrong = both.but(headers=both.headers | {"X-Postal-Signature-256": senders.b64(bytes(256))})

    assert both.verify().secret_index == 0
    with pytest.raises(SignatureInvalid, match="signature_mismatch"):
        wrong.verify()
