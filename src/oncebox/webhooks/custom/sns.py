"""AWS SNS: RSA signatures, certificates from pinned URLs, allowed topics, confirmation."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, HashAlgorithm

from oncebox.errors import KeyFetchRequired, SignatureInvalid
from oncebox.webhooks import formats, signing
from oncebox.webhooks.formats import decode_base64
from oncebox.webhooks.paths import DECODE_ERRORS
from oncebox.webhooks.scheme import SignatureMatch, SubscriptionConfirmation, VerificationContext

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

#: the whole address is pinned: anybody can have other hosts of the same domain
_CERTIFICATE_URL = re.compile(
    r"https://sns\.[a-z0-9-]{3,40}\.amazonaws\.com(?:\.cn)?"
    r"/SimpleNotificationService-[A-Za-z0-9]{1,64}\.pem"
)
_TOPIC_ARN = re.compile(
    r"arn:(aws|aws-cn|aws-us-gov):sns:([a-z0-9-]{3,40}):[0-9]{12}:[A-Za-z0-9_.-]+"
)
_HASHES: dict[str, type[HashAlgorithm]] = {"1": SHA1, "2": SHA256}
_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_SUBSCRIPTION = (
    "Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type",
)  # fmt: skip
_SIGNED_MEMBERS = {
    "Notification": _NOTIFICATION,
    "SubscriptionConfirmation": _SUBSCRIPTION,
    "UnsubscribeConfirmation": _SUBSCRIPTION,
}
#: Lambda spells some names differently
_LAMBDA_SPELLINGS = {"SigningCertURL": "SigningCertUrl", "SubscribeURL": "SubscribeUrl"}
_BODY_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT_DECODER: "msgspec.json.Decoder[str | None]" = msgspec.json.Decoder(str | None)


class _SnsMessage:
    """The members of an SNS message that are text."""

    def __init__(self, body: bytes) -> None:
        try:
            self._members = _BODY_DECODER.decode(body)
        except DECODE_ERRORS as error:
            raise SignatureInvalid("malformed_body") from error

    def find(self, name: str) -> str | None:
        """Return a member; null counts as missing."""
        raw = self._members.get(name)
        if raw is None:
            return self.find(_LAMBDA_SPELLINGS[name]) if name in _LAMBDA_SPELLINGS else None
        try:
            return _TEXT_DECODER.decode(raw)
        except DECODE_ERRORS as error:
            raise SignatureInvalid("malformed_body") from error

    def text(self, name: str) -> str:
        """Return a member that must be there."""
        value = self.find(name)
        if value is None:
            raise SignatureInvalid("malformed_body")
        return value


def verify_sns(context: VerificationContext) -> SignatureMatch:
    """Verify a message of an allowed topic."""
    message = _SnsMessage(context.request.body)
    # First: no certificate is fetched for other topics.
    if message.text("TopicArn") not in context.options.topics:
        raise SignatureInvalid("topic_not_allowed")
    certificates = _certificates(context, message.text("SigningCertURL"))
    version = _HASHES.get(message.text("SignatureVersion"))
    if version is None:
        raise SignatureInvalid("wrong_algorithm")
    signature = decode_base64(message.text("Signature"))
    lines = _signed_lines(message)
    reason = "signature_mismatch"
    for index, certificate in certificates:
        try:
            key = _certificate_key(certificate, context.now)
            key.verify(signature, lines, PKCS1v15(), version())
        except SignatureInvalid as error:
            reason = error.reason
        except InvalidSignature:
            continue
        else:
            return SignatureMatch(index, formats.parse_timestamp(message.text("Timestamp"), "iso"))
    raise SignatureInvalid(reason)


def subscription_confirmation(context: VerificationContext) -> SubscriptionConfirmation | None:
    """Return the confirmation of a subscription, or None if the message is none.

    Its address is built from the topic and the token; the one in the message is not trusted.
    """
    message = _SnsMessage(context.request.body)
    if message.find("Type") != "SubscriptionConfirmation":
        return None
    topic = message.text("TopicArn")
    found = _TOPIC_ARN.fullmatch(topic)
    if found is None:
        return None
    ending = ".cn" if found[1] == "aws-cn" else ""
    return SubscriptionConfirmation(
        f"https://sns.{found[2]}.amazonaws.com{ending}/?Action=ConfirmSubscription"
        f"&TopicArn={quote(topic, safe='')}&Token={quote(message.text('Token'), safe='')}"
    )


def _certificates(context: VerificationContext, url: str) -> list[tuple[int, str]]:
    """Return the configured certificates, else the one that was fetched from its pinned address."""
    if not _CERTIFICATE_URL.fullmatch(url):
        raise SignatureInvalid("untrusted_certificate")
    configured = [(index, text) for index, text in enumerate(context.secrets) if text.strip()]
    if configured:
        return configured
    fetched = context.keys.get(url)
    if fetched is None:
        raise KeyFetchRequired(url)
    return [(-1, fetched)]


def _certificate_key(text: str, now: int | None) -> RSAPublicKey:
    """Return the key of a certificate that is valid at the time."""
    try:
        certificate = _load_certificate(text)
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SignatureInvalid("unusable_certificate") from error
    if not isinstance(key, RSAPublicKey):
        raise SignatureInvalid("unusable_certificate")
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now is not None and not first.timestamp() * 1000 <= now <= last.timestamp() * 1000 + 999:
        raise SignatureInvalid("expired_certificate")
    return key


@lru_cache(64)
def _load_certificate(text: str) -> "Certificate":
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - slow, and only here

    return load_pem_x509_certificate(signing.secret_bytes(text.strip()))


def _signed_lines(message: _SnsMessage) -> bytes:
    """Return the signed lines: names and values, sorted, without those that are missing."""
    names = _SIGNED_MEMBERS.get(message.text("Type"))
    if names is None:
        raise SignatureInvalid("malformed_body")
    lines: list[str] = []
    for name in names:
        value = message.find(name) if name == "Subject" else message.text(name)
        if value is not None:
            lines += (name, value)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
