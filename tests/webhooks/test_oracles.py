"""The providers' own packages sign, and judge beside us: they agree with us on every change."""

import base64
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl

import pytest
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey
from slack_sdk.signature import Clock, SignatureVerifier
from standardwebhooks.webhooks import Webhook as StandardWebhook
from twilio.request_validator import RequestValidator  # type: ignore[import-untyped]

from oncebox.core import clock
from oncebox.errors import SignatureInvalid
from oncebox.webhooks.signing import sign
from tests.webhooks import senders
from tests.webhooks.senders import BODY, Sent

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import stripe
    from svix.webhooks import Webhook as SvixWebhook

TEXT = BODY.decode()
KEY = SigningKey(bytes(range(32)))
FORM = {"MessageSid": "SM1", "Body": "It's + é", "To": "+1800"}


@dataclass(frozen=True)
class Oracle:
    """A request that a package signed, and that package's own judgement of any request."""

    sent: Sent
    judge: Callable[[Sent], bool]


def _stripe(seconds: int) -> Oracle:
    secret = "whsec_test"
    header = stripe.WebhookSignature.generate_signature_header(TEXT, secret, seconds)

    def judge(sent: Sent) -> bool:
        try:
            given = sent.headers["Stripe-Signature"]
            stripe.WebhookSignature.verify_header(sent.body, given, secret, tolerance=300)
        except (stripe.SignatureVerificationError, UnicodeDecodeError):
            return False
        return True

    headers = {"Stripe-Signature": header}
    return Oracle(Sent("stripe", headers, secrets=(secret,), signature="Stripe-Signature"), judge)


def _standard(seconds: int, name: str, family: str, package: type) -> Oracle:
    webhook = package(senders.WHSEC)
    signature = webhook.sign("msg_1", datetime.fromtimestamp(seconds, UTC), TEXT)

    def judge(sent: Sent) -> bool:
        try:
            webhook.verify(sent.body, sent.headers)
        except Exception:  # noqa: BLE001 - it raises what it likes
            return False
        return True

    headers = {
        f"{family}id": "msg_1",
        f"{family}timestamp": str(seconds),
        f"{family}signature": signature,
    }
    sent = Sent(name, headers, secrets=(senders.WHSEC,), signature=f"{family}signature")
    return Oracle(sent, judge)


def _slack(seconds: int) -> Oracle:
    class Stopped(Clock):
        def now(self) -> float:
            return seconds

    verifier = SignatureVerifier("slack-secret", Stopped())
    signature = verifier.generate_signature(timestamp=str(seconds), body=BODY)

    def judge(sent: Sent) -> bool:
        try:
            return verifier.is_valid_request(sent.body, sent.headers)
        except (ValueError, TypeError):
            return False

    headers = {
        "X-Slack-Signature": str(signature),
        "X-Slack-Request-Timestamp": str(seconds),
    }
    sent = Sent("slack", headers, secrets=("slack-secret",), signature="X-Slack-Signature")
    return Oracle(sent, judge)


def _twilio(seconds: int) -> Oracle:
    validator = RequestValidator("token")
    url = "https://x.test/in?a=1"
    header = "X-Twilio-Signature"

    def judge(sent: Sent) -> bool:
        fields = dict(parse_qsl(sent.body.decode("utf-8", "replace"), keep_blank_values=True))
        return bool(validator.validate(url, fields, sent.headers[header]))

    headers = {
        header: validator.compute_signature(url, FORM),
        "Content-Type": "application/x-www-form-urlencoded",
    }
    body = senders.form(FORM)
    sent = Sent("twilio", headers, body=body, secrets=("token",), url=url, signature=header)
    return Oracle(sent, judge)


def _discord(seconds: int) -> Oracle:
    header = "X-Signature-Ed25519"
    key = KEY.verify_key.encode().hex()

    def judge(sent: Sent) -> bool:
        try:
            signature = bytes.fromhex(sent.headers[header])
            VerifyKey(bytes.fromhex(key)).verify(str(seconds).encode() + sent.body, signature)
        except (BadSignatureError, ValueError):
            return False
        return True

    headers = {
        header: KEY.sign(str(seconds).encode() + BODY).signature.hex(),
        "X-Signature-Timestamp": str(seconds),
    }
    return Oracle(Sent("discord", headers, secrets=(key,), signature=header), judge)


ORACLES: dict[str, Callable[[int], Oracle]] = {
    "stripe": _stripe,
    "standardwebhooks": lambda now: _standard(
        now, "standard-webhooks", "webhook-", StandardWebhook
    ),
    "svix": lambda now: _standard(now, "svix", "svix-", SvixWebhook),
    "slack_sdk": _slack,
    "twilio": _twilio,
    "pynacl": _discord,
}
each = pytest.mark.parametrize("oracle", ORACLES, indirect=True)


@pytest.fixture
def oracle(request: pytest.FixtureRequest) -> Oracle:
    """Sign now: these packages ask the host for the time."""
    return ORACLES[request.param](clock.system() // 1000)


def ours(sent: Sent) -> bool:
    try:
        sent.verify_strictly(now=clock.system())
    except SignatureInvalid:
        return False
    return True


@each
def test_what_the_package_signed_is_accepted_by_both(oracle: Oracle) -> None:
    assert oracle.judge(oracle.sent)
    assert ours(oracle.sent)


@each
def test_a_change_of_any_one_byte_of_the_body_is_refused_by_both(oracle: Oracle) -> None:
    body = oracle.sent.body
    for at in range(len(body)):
        changed = oracle.sent.but(body=body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        assert not ours(changed)
        assert not oracle.judge(changed)


@each
def test_a_change_of_any_one_character_of_the_signature_is_refused(oracle: Oracle) -> None:
    """Ours is the stricter: a few of theirs decode two spellings to the same bytes."""
    right = oracle.sent.headers[oracle.sent.signature]
    for at, old in enumerate(right):
        new = "B" if old == "A" else "A"
        assert not ours(oracle.sent.signed_as(right[:at] + new + right[at + 1 :]))


@pytest.mark.parametrize("change", ["", " ", "x", "v1=", "v0=", "v1,", "A" * 500])
@each
def test_other_signatures_are_refused_by_both(oracle: Oracle, change: str) -> None:
    changed = oracle.sent.signed_as(change)

    assert not ours(changed)
    assert not oracle.judge(changed)


@pytest.mark.parametrize(
    "package", [StandardWebhook, SvixWebhook], ids=["standardwebhooks", "svix"]
)
def test_what_we_sign_is_accepted_by_the_packages(package: type) -> None:
    headers = sign(senders.WHSEC, "msg_2", clock.system(), BODY)

    package(senders.WHSEC).verify(BODY, headers)  # it raises what does not hold
    with pytest.raises(Exception, match="signature"):
        package(senders.WHSEC).verify(BODY + b" ", headers)


def test_what_we_sign_by_a_private_key_is_accepted_by_pynacl() -> None:
    secret = "whsk_" + base64.b64encode(bytes(range(32))).decode()
    now = clock.system()
    headers = sign(secret, "msg_2", now, BODY)
    version, _, signature = headers["webhook-signature"].partition(",")
    message = b"msg_2." + str(now // 1000).encode() + b"." + BODY

    assert version == "v1a"
    assert KEY.verify_key.verify(message, base64.b64decode(signature)) == message
