"""Every scheme: what its sender signed passes, and nothing else does."""

import hashlib
import json

import pytest

from oncebox.errors import KeyFetchRequired, SignatureInvalid
from oncebox.webhooks import registry
from oncebox.webhooks.scheme import SchemeOptions
from oncebox.webhooks.verification import REASONS, Freshness
from tests.webhooks import senders
from tests.webhooks.senders import (
    NOW,
    SENDERS,
    UNCHECKED,
    Sent,
    postal_older,
    standard_public,
)

ALL = {name: make() for name, make in SENDERS.items()} | {
    "v1a": standard_public(),
    "postal-sha1": postal_older(),
}
IN_A_HEADER = {name: sent for name, sent in ALL.items() if sent.signature}
OVER_THE_BODY = {name: sent for name, sent in ALL.items() if sent.covers_body}
#: dated by the signature, with a window
DATED = {
    name: sent
    for name, sent in ALL.items()
    if sent.table.window is not None and sent.table.covers and "time" in sent.table.covers
}


def each(chosen: dict[str, Sent]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("sent", chosen.values(), ids=chosen)


def refusal(sent: Sent, *, now: int | None = NOW) -> str:
    with pytest.raises(SignatureInvalid) as caught:
        sent.verify(now=now)
    assert caught.value.reason in REASONS
    assert caught.value.reason != "scheme_failed"
    return caught.value.reason


def test_there_is_a_sender_for_every_scheme() -> None:
    assert set(SENDERS) | UNCHECKED == set(registry.BUILT_IN_SCHEMES)


@each(ALL)
def test_what_a_sender_signed_is_accepted(sent: Sent) -> None:
    verdict = sent.verify_strictly()

    assert verdict.secret_index == 0
    assert verdict.freshness in {Freshness.FRESH, Freshness.UNDATED}


@each(ALL)
def test_the_secret_that_fits_is_named(sent: Sent) -> None:
    """Among others that do not fit, and a blank one that is never tried."""
    wrong = _another_secret(sent)

    assert sent.but(secrets=("", wrong, *sent.secrets)).verify().secret_index == 2


@each(ALL)
@pytest.mark.parametrize("blank", [(), ("",), (" ", "\t\n"), ("whsec_",)], ids=repr)
def test_no_secret_means_no(sent: Sent, blank: tuple[str, ...]) -> None:
    """Where keys are fetched, no secret is needed; the key is asked for instead."""
    with pytest.raises((SignatureInvalid, KeyFetchRequired)) as caught:
        sent.but(secrets=blank).verify()

    assert isinstance(caught.value, SignatureInvalid) or sent.table.keyless


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "whsec_"], ids=repr)
def test_whoever_signs_with_nothing_is_refused(blank: str) -> None:
    """Were a blank secret a key, anybody would have it."""
    body, key = senders.BODY, blank.encode()
    github = ALL["github"].signed_as(f"sha256={senders.mac(body, key=key).hex()}")
    hubspot = ALL["hubspot-v1"].signed_as(hashlib.sha256(key + body).hexdigest())
    standard = senders.standard("standard-webhooks", secret="whsec_")
    token = ALL["token"].signed_as(f"Bearer {blank}")
    basic = ALL["basic"].signed_as("Basic Og==")

    for sent in (github, hubspot, standard, token, basic):
        if blank.strip() and sent in (github, hubspot, token):
            continue
        assert refusal(sent.but(secrets=(blank,)))


@each(ALL)
def test_another_secret_is_refused(sent: Sent) -> None:
    refusal(sent.but(secrets=(_another_secret(sent),)))


@each(OVER_THE_BODY)
@pytest.mark.parametrize("change", ["append", "newline", "cut", "flip", "empty"])
def test_other_bytes_are_refused(sent: Sent, change: str) -> None:
    body = sent.body
    changed = {
        "append": body + b" ",
        "newline": body + b"\n",
        "cut": body[:-1],
        "flip": body[:-3] + bytes([body[-3] ^ 1]) + body[-2:],
        "empty": b"",
    }[change]

    refusal(sent.but(body=changed))


@each(IN_A_HEADER)
def test_only_the_whole_signature_passes(sent: Sent) -> None:
    right = sent.headers[sent.signature]
    wrong = {
        right[:-1],
        right[: len(right) // 2],
        f"{right}0",
        f"{right}=",
        f"x{right}",
        f"{right[:-2]}{'A' if right[-2] != 'A' else 'B'}{right[-1]}",
        right.swapcase(),
        f"\u0663{right[1:]}",
        "\udcff",
    }

    for value in wrong:
        refusal(sent.signed_as(value))


@each(IN_A_HEADER)
def test_a_missing_or_empty_signature_is_refused(sent: Sent) -> None:
    without = {name: value for name, value in sent.headers.items() if name != sent.signature}

    assert refusal(sent.but(headers=without)) == "missing_header"
    assert refusal(sent.signed_as("")) == "missing_header"
    assert refusal(sent.signed_as("  ")) == "missing_header"


@each(IN_A_HEADER)
def test_a_signature_that_is_there_twice_is_refused(sent: Sent) -> None:
    twice = sent.headers | {sent.signature.swapcase(): sent.headers[sent.signature]}

    assert refusal(sent.but(headers=twice)) == "duplicate_header"


@each(ALL)
def test_header_names_have_no_case(sent: Sent) -> None:
    sent.but(headers={name.upper(): value for name, value in sent.headers.items()}).verify()
    sent.but(headers={name.lower(): value for name, value in sent.headers.items()}).verify()


@each(DATED)
def test_the_window_is_open_to_both_sides_and_its_edges_are_inside(sent: Sent) -> None:
    window = sent.table.window
    assert window is not None
    signed_at = sent.verify().signed_at
    assert signed_at is not None
    edge = window * 1000

    assert sent.verify(now=signed_at + edge).freshness is Freshness.FRESH
    assert sent.verify(now=signed_at - edge).freshness is Freshness.FRESH
    assert sent.verify(now=signed_at + edge + 1).freshness is Freshness.LATE
    assert refusal(sent, now=signed_at - edge - 1) == "future"


@each(DATED)
def test_strict_callers_refuse_what_is_late(sent: Sent) -> None:
    with pytest.raises(SignatureInvalid, match="stale"):
        sent.verify_strictly(now=NOW + 3_600_000)


@each(DATED)
def test_a_window_can_be_set_and_taken_away(sent: Sent) -> None:
    hour = NOW + 3_600_000

    assert _with_window(sent, 4000).verify(now=hour).freshness is Freshness.FRESH
    assert _with_window(sent, 0).verify(now=NOW * 2).freshness is Freshness.FRESH
    assert _with_window(sent, 1).verify(now=hour).freshness is Freshness.LATE


@each(ALL)
def test_without_a_clock_no_time_is_judged(sent: Sent) -> None:
    assert sent.verify(now=None).freshness is Freshness.UNDATED


TIMES = [
    "",
    "x",
    "-1",
    "+1",
    "1e9",
    "1.5",
    "\u0661\u0667\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660",
    "9" * 20,
    str(NOW * 1000),
    " ",
    "0x10",
]


@pytest.mark.parametrize("name", ["slack", "zoom", "standard-webhooks", "svix", "discord"])
@pytest.mark.parametrize("time", TIMES)
def test_a_time_is_spelled_in_digits_only(name: str, time: str) -> None:
    sent = ALL[name]
    (header,) = [each for each in sent.headers if "timestamp" in each.lower()]

    reason = refusal(sent.but(headers=sent.headers | {header: time}))
    assert reason in {"malformed_timestamp", "missing_header"}


def test_milliseconds_are_no_seconds() -> None:
    sent = ALL["slack"]
    headers = sent.headers | {"X-Slack-Request-Timestamp": str(NOW)}

    assert refusal(sent.but(headers=headers)) == "malformed_timestamp"


@pytest.mark.parametrize(
    "time",
    [
        "2023-11-14 22:13:20Z", "2023-11-14T22:13:20", "2023-13-14T22:13:20Z",
        "2023-11-14T22:13:20+99:00", "0001-01-01T00:00:00+23:59", "2023-11-14T22:13:20.Z",
    ],
)  # fmt: skip
def test_a_date_is_spelled_as_rfc_3339(time: str) -> None:
    sent = ALL["zendesk"]
    headers = sent.headers | {"X-Zendesk-Webhook-Signature-Timestamp": time}

    refusal(sent.but(headers=headers))


def test_two_times_in_one_signature_are_refused() -> None:
    sent = ALL["stripe"]
    doubled = sent.signed_as(f"t=1,{sent.headers['Stripe-Signature']}")

    assert refusal(doubled) == "malformed_timestamp"


def test_a_signature_without_its_time_is_refused() -> None:
    sent = ALL["stripe"]
    _, _, bare = sent.headers["Stripe-Signature"].partition(",")

    assert refusal(sent.signed_as(bare)) == "missing_timestamp"


@pytest.mark.parametrize("name", ["stripe", "paddle", "pagerduty", "elevenlabs", "generic-hmac"])
def test_one_right_signature_among_wrong_ones_is_enough(name: str) -> None:
    sent = ALL[name]
    joint = sent.table.separator
    right = sent.headers[sent.signature]
    mark = sent.table.signature_prefixes[0][0]

    assert sent.signed_as(f"{right}{joint}{mark}{'0' * 64}").verify().secret_index == 0
    assert sent.signed_as(f"{mark}{'0' * 64}{joint} {right}").verify().secret_index == 0


@pytest.mark.parametrize("name", ["stripe", "paddle", "pagerduty", "generic-hmac"])
def test_no_more_than_eight_signatures_are_tried(name: str) -> None:
    sent = ALL[name]
    mark, joint = sent.table.signature_prefixes[0][0], sent.table.separator
    right = sent.headers[sent.signature]
    wrong = joint.join([f"{mark}{'0' * 64}"] * 8)

    assert refusal(sent.signed_as(f"{wrong}{joint}{right}")) == "too_many_signatures"
    assert refusal(sent.signed_as(joint.join([right] * 10_000))) in {
        "malformed_signature",
        "too_many_signatures",
    }


def test_unknown_versions_are_passed_over() -> None:
    stripe, standard = ALL["stripe"], ALL["standard-webhooks"]
    value = standard.headers["webhook-signature"]

    stripe.signed_as(f"{stripe.headers['Stripe-Signature']},v0={'0' * 64}").verify()
    standard.signed_as(f"v2,{value[3:]} {value} v9").verify()
    assert refusal(standard.signed_as(f"v2,{value[3:]}")) == "no_matching_version"
    assert refusal(stripe.signed_as(stripe.headers["Stripe-Signature"].replace("v1=", "v0=")))


def test_a_key_serves_one_algorithm_only() -> None:
    """A public key is no shared secret, and a shared secret no public key."""
    shared, public = ALL["standard-webhooks"], ALL["v1a"]
    both = f"{shared.headers['webhook-signature']} {public.headers['webhook-signature']}"

    assert refusal(shared.but(secrets=public.secrets)) == "no_matching_version"
    assert refusal(public.but(secrets=shared.secrets)) == "no_matching_version"
    assert shared.but(secrets=public.secrets).signed_as(both).verify().secret_index == 0
    assert public.but(secrets=(*shared.secrets,)).signed_as(both).verify().secret_index == 0


@pytest.mark.parametrize("value", ["v1,", "v1", ",", "v1,,", "v1, ", " v1,"])
def test_an_empty_standard_signature_is_refused(value: str) -> None:
    assert refusal(ALL["standard-webhooks"].signed_as(value))


def test_the_hash_is_ours_to_choose() -> None:
    """The header cannot ask for a weaker one than the scheme has."""
    weak = senders.mac(senders.BODY, "sha1").hex()

    assert refusal(ALL["github"].signed_as(f"sha1={weak}")) == "malformed_signature"
    assert refusal(ALL["intercom"].signed_as(f"sha256={senders.mac(senders.BODY).hex()}"))
    assert refusal(ALL["bitbucket"].signed_as(f"sha1={weak}"))
    assert ALL["github-legacy"].signed_as(f"sha1={weak}").verify().secret_index == 0
    assert refusal(ALL["github-legacy"].signed_as(f"md5={weak}")) == "malformed_signature"


def test_both_families_of_headers_are_understood() -> None:
    standard = ALL["standard-webhooks"]
    branded = {name.replace("webhook-", "svix-"): v for name, v in standard.headers.items()}

    assert standard.but(headers=branded).verify().secret_index == 0
    del branded["svix-id"]
    assert refusal(standard.but(headers=branded)) == "missing_header"


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("whsec_" + senders.b64(b"a key of 25 bytes, padded"), b"a key of 25 bytes, padded"),
        (senders.b64(b"a key of 25 bytes, padded"), b"a key of 25 bytes, padded"),
        ("whsec_" + senders.b64(b"a key of 25 bytes, padded").rstrip("="), None),
    ],
)
def test_a_standard_secret_is_base64_padded_or_not(secret: str, key: bytes | None) -> None:
    key = key or b"a key of 25 bytes, padded"
    sent = ALL["standard-webhooks"]
    message = b"msg_1." + senders.SECONDS.encode() + b"." + sent.body
    value = f"v1,{senders.b64(senders.mac(message, key=key))}"

    assert sent.but(secrets=(secret,)).signed_as(value).verify().secret_index == 0


def test_an_unusable_secret_is_told_apart() -> None:
    assert refusal(ALL["svix"].but(secrets=("whsec_no!base64",))) == "unusable_secret"
    assert refusal(ALL["discord"].but(secrets=("zz",))) == "unusable_secret"
    assert refusal(ALL["sendgrid"].but(secrets=("zz",))) == "unusable_secret"
    assert refusal(ALL["basic"].but(secrets=("no-colon",))) == "unusable_secret"


def test_openai_takes_a_secret_without_its_prefix_as_it_is_written() -> None:
    openai = senders.standard("openai", secret="plain words!")

    assert openai.verify().secret_index == 0
    assert refusal(openai.but(scheme="standard-webhooks")) == "unusable_secret"


def test_nothing_is_let_in_unsigned_unless_the_source_says_so() -> None:
    sent = Sent("none", {}, secrets=())

    assert refusal(sent) == "unsigned"
    assert sent.but(options=SchemeOptions(allow_unsigned=True)).verify().secret_index == -1


def test_a_reason_never_shows_what_would_have_been_right() -> None:
    sent = ALL["github"].signed_as("sha256=" + "0" * 64)
    with pytest.raises(SignatureInvalid) as caught:
        sent.verify()

    assert str(caught.value) == "the signature does not hold: signature_mismatch"


def _with_window(sent: Sent, seconds: int) -> Sent:
    return sent.but(options=SchemeOptions(window=seconds, topics=sent.options.topics))


def _another_secret(sent: Sent) -> str:
    others = {
        "discord": "11" * 32,
        "basic": "user:other",
        "postmark": "user:other",
        "postmark-inbound": "user:other",
        "plaid": json.dumps(senders.jwk() | {"y": senders.jwk()["x"]}),
        "aws-sns": other_certificate(),
        "ses-inbound": other_certificate(),
    }
    if sent.scheme.startswith("sendgrid"):
        return (
            "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqTxd43gyp8IOEto2LdIfjRQrIbsd4SXZkLW6jDutdhXSJCWHw8"
            "REntlo7aNDthvj+y7GjUuFDb/R1NGe1OPzpA=="
        )
    if sent.secrets[0].startswith("whpk_"):
        return "whpk_" + senders.b64(bytes(31) + b"\x01")
    return others.get(sent.scheme, "whsec_" + senders.b64(b"another secret altogether"))


def other_certificate() -> str:
    """Not a certificate at all: it can never fit."""
    return "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
