"""Verification: is this what its sender signed, with which secret, and when."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from oncebox.errors import ConfigInvalid, KeyWanted, SignatureInvalid
from oncebox.signature import mac
from oncebox.signature.request import Request
from oncebox.signature.scheme import NO_KEYS, NO_OPTIONS, Attempt, Keys, Match, Options, Scheme
from oncebox.signature.tuning import tuned

#: every reason a request is refused for, and what it means
REASONS: dict[str, str] = {
    "missing_secret": "no secret is configured, or it is blank",
    "unusable_secret": "the secret is not of the form that the scheme needs",
    "missing_header": "a header of the signature is missing or empty",
    "duplicate_header": "a header of the signature is there twice",
    "malformed_signature": "the signature is not spelled as the scheme spells it",
    "too_many_signatures": "more than eight signatures, or more than thirty-two entries",
    "no_matching_version": "no signature is of the version that the secret is for",
    "signature_mismatch": "it was signed with another secret, or for other bytes",
    "missing_timestamp": "the signature names no time",
    "malformed_timestamp": "the time is not spelled as the scheme spells it, or is there twice",
    "future": "it is dated later than the window allows",
    "stale": "it is dated earlier than the window allows",
    "malformed_body": "the body lacks what the scheme needs in order to verify it",
    "body_not_covered": "the signature leaves the body uncovered",
    "body_hash_mismatch": "the body is not the one whose hash was signed",
    "untrusted_certificate": "the certificate lies at an address that is not the provider's",
    "unusable_certificate": "the certificate cannot be read, or has no key that fits",
    "expired_certificate": "the certificate was not valid at the time",
    "expired_key": "the key had been withdrawn at the time",
    "wrong_algorithm": "the request asks for an algorithm that the scheme does not use",
    "topic_not_allowed": "the topic is not among those that are let in",
    "unsigned": "nothing is signed, and the source does not allow that",
    "unusable_options": "the options of the source are not of the form that the scheme needs",
    "scheme_failed": "the code of an added scheme failed",
}


class Freshness(StrEnum):
    """How the time that was signed compares with the receive clock."""

    #: inside the window, or dated by a scheme that has none
    FRESH = "fresh"
    #: a good signature, older than the window
    LATE = "late"
    #: there is no time to judge by
    UNDATED = "undated"


class Verdict(msgspec.Struct, frozen=True):
    """A request that is what its sender signed."""

    #: the place of the secret that fits; -1 for a fetched key, or where nothing is signed
    secret: int
    #: when it was signed, in milliseconds
    signed_at: int | None
    freshness: Freshness


def verify(
    scheme: Scheme,
    request: Request,
    secrets: Sequence[str],
    *,
    now: int | None,
    options: Options = NO_OPTIONS,
    keys: Keys = NO_KEYS,
) -> Verdict:
    """Return the verdict on a request; an old but good one is ``late``.

    ``now`` is the receive clock in milliseconds; None judges no time.

    Raises: SignatureInvalid, and KeyWanted where a public key must be fetched first; whatever
    the request holds, nothing else.
    """
    attempt = Attempt(
        scheme=scheme, request=request, secrets=secrets, now=now, options=options, keys=keys
    )
    found = matched(attempt)
    return Verdict(found.secret, found.signed_at, _freshness(attempt, found))


def matched(attempt: Attempt) -> Match:
    """Return the secret that fits and the time that was signed, without judging the time.

    Raises: SignatureInvalid, KeyWanted.
    """
    try:
        if attempt.options is not NO_OPTIONS:
            scheme = tuned(attempt.scheme, attempt.options)
            attempt = msgspec.structs.replace(attempt, scheme=scheme)
        return (attempt.scheme.verifier or mac.verify)(attempt)
    except (SignatureInvalid, KeyWanted):
        raise
    except ConfigInvalid as error:
        raise SignatureInvalid("unusable_options") from error
    except Exception as error:
        # A scheme may be somebody else's code, and a request anybody's bytes: fail closed.
        raise SignatureInvalid("scheme_failed") from error


def verify_strictly(
    scheme: Scheme,
    request: Request,
    secrets: Sequence[str],
    *,
    now: int | None,
    options: Options = NO_OPTIONS,
    keys: Keys = NO_KEYS,
) -> Verdict:
    """Return the verdict on a request that is good and fresh.

    Raises: SignatureInvalid, also for a late one; KeyWanted.
    """
    verdict = verify(scheme, request, secrets, now=now, options=options, keys=keys)
    if verdict.freshness is Freshness.LATE:
        raise SignatureInvalid("stale")
    return verdict


def _freshness(attempt: Attempt, found: Match) -> Freshness:
    if found.signed_at is None or attempt.now is None:
        return Freshness.UNDATED
    window = attempt.options.window
    allowed = (attempt.scheme.window if window is None else window) or 0
    age = attempt.now - found.signed_at
    if not allowed or -allowed * 1000 <= age <= allowed * 1000:
        return Freshness.FRESH
    if age < 0:
        raise SignatureInvalid("future")
    return Freshness.LATE
