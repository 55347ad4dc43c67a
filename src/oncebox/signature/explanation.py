"""Explaining why a signature does not hold: what it would take to make it hold is tried out."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from oncebox.errors import ConfigInvalid, KeyWanted, SignatureInvalid
from oncebox.signature import schemes
from oncebox.signature.mistakes import guesses, looks_sorted
from oncebox.signature.request import Request
from oncebox.signature.scheme import NO_KEYS, NO_OPTIONS, Attempt, Keys, Match, Options, Scheme
from oncebox.signature.tuning import tuned
from oncebox.signature.verification import REASONS, Freshness, matched, verify

#: what the secrets of a scheme begin with
_BEGINNINGS = {
    "paddle": "pdl_",
    "resend": "whsec_",
    "standard-webhooks": "whsec_",
    "stripe": "whsec_",
    "svix": "whsec_",
}
_MOST_SENTENCES = 3


def explain(
    scheme: Scheme,
    request: Request,
    secrets: Sequence[str],
    *,
    now: int | None,
    options: Options = NO_OPTIONS,
    keys: Keys = NO_KEYS,
) -> list[str]:
    """Return sentences that say what is wrong, and what to do; no secret is in them."""
    try:
        scheme = tuned(scheme, options)
    except ConfigInvalid as error:
        return [str(error)]
    attempt = Attempt(
        scheme=scheme, request=request, secrets=secrets, now=now, options=options, keys=keys
    )
    try:
        verdict = verify(scheme, request, secrets, now=now, options=options, keys=keys)
    except KeyWanted:
        return ["The public key of the sender must be fetched first; give it as the secret."]
    except SignatureInvalid as error:
        return [f"{error.reason}: {REASONS[error.reason]}.", *_why(attempt, error.reason)]
    if verdict.freshness is Freshness.LATE:
        return [f"stale: {REASONS['stale']}.", *_about_time(attempt)]
    which = "" if len(secrets) <= 1 else f" It was made with secret number {verdict.secret + 1}."
    return [f"The signature holds.{which}"]


def _why(attempt: Attempt, reason: str) -> list[str]:
    if reason in {"future", "stale"}:
        return _about_time(attempt)
    said = [_REMEDIES[reason]] if reason in _REMEDIES else []
    if reason == "malformed_timestamp":
        said = [f"The time must be written in {_UNITS[attempt.scheme.unit]}."]
    if reason in {"missing_header", "malformed_signature"}:
        said = _about_headers(attempt)
    if reason in {"missing_secret", "unusable_secret", "signature_mismatch"}:
        said = _about_secrets(attempt)
    at_a_loss = reason in {"signature_mismatch", "body_hash_mismatch"}
    return [*said, *_about_mistakes(attempt, quiet=not at_a_loss)]


_REMEDIES = {
    "body_not_covered": "Give the whole address: bodySHA256 in its query covers what is no form.",
    "duplicate_header": "Something on the way adds the header a second time.",
    "no_matching_version": "A whsec_ secret is for v1 signatures, a whpk_ key for v1a.",
    "topic_not_allowed": "Add the topic to the topics of the source, if it is yours.",
    "untrusted_certificate": "A genuine message names a certificate of sns.REGION.amazonaws.com.",
}
_UNITS = {"s": "seconds since 1970", "ms": "milliseconds since 1970", "iso": "RFC 3339"}


def _about_time(attempt: Attempt) -> list[str]:
    try:
        found = matched(attempt)
    except (SignatureInvalid, KeyWanted):
        return []
    if found.signed_at is None or attempt.now is None:
        return []
    seconds = (attempt.now - found.signed_at) / 1000
    side = "before" if seconds > 0 else "after"
    return [
        (
            f"The signature itself holds, but it is dated {abs(seconds):.0f} s {side} the receive "
            f"clock, and the window is {_window(attempt)} s."
        ),
        (
            "If the request is fresh, one of the two clocks is wrong; if it is a recording, say "
            "when it came with --now."
        ),
    ]


def _window(attempt: Attempt) -> int:
    window = attempt.options.window
    return (attempt.scheme.window if window is None else window) or 0


def _about_headers(attempt: Attempt) -> list[str]:
    """Say which header is missing, and whose header is there instead."""
    scheme, table = attempt.scheme, attempt.request.table
    if not scheme.header:
        return []
    said = []
    if scheme.lower[0] not in table:
        said.append(f"There is no header {scheme.header}.")
    elif (offered := table[scheme.lower[0]].strip()) and not _marked(scheme, offered):
        marks = " or ".join(dict.fromkeys(mark for mark, _ in scheme.marks if mark))
        said.append(f"An entry of {scheme.header} begins with {marks or scheme.lead}.")
    others = [
        f"{other.header} (scheme {other.name})"
        for other in schemes.BUILT_IN.values()
        if other.lower and other.lower[0] in table and other.lower[0] not in scheme.lower
    ]
    if others:
        said.append(f"But there is {', '.join(others[:_MOST_SENTENCES])}.")
    return said


def _marked(scheme: Scheme, value: str) -> bool:
    beginnings = [mark for mark, _ in scheme.marks] if not scheme.lead else [scheme.lead]
    return any(mark in value for mark in beginnings)


def _about_secrets(attempt: Attempt) -> list[str]:
    beginning = _BEGINNINGS.get(attempt.scheme.name)
    given = [secret for secret in attempt.secrets if secret.strip()]
    if not given:
        return ["Give the secret that the provider shows for this very endpoint."]
    if beginning and not any(secret.strip().startswith(beginning) for secret in given):
        return [f"A secret of {attempt.scheme.title} begins with {beginning}; this one does not."]
    return []


def _about_mistakes(attempt: Attempt, *, quiet: bool) -> list[str]:
    """Try every known mistake; say those whose undoing makes the signature hold."""
    timeless = replace(attempt, now=None)
    found = list(dict.fromkeys(_holding(timeless)))[:_MOST_SENTENCES]
    said = [f"The signature holds once this is undone: {sentence}." for sentence in found]
    if said or quiet:
        return said
    return [
        *_about_body(attempt.request.body),
        (
            "None of the usual mistakes explains it: most likely the secret is another "
            "endpoint's, or the body was changed on its way."
        ),
    ]


def _about_body(body: bytes) -> list[str]:
    if not body:
        return ["The body is empty; was it read before?"]
    if looks_sorted(body):
        return ["The members of the body are sorted: was it read as JSON and written again?"]
    return []


def _holding(attempt: Attempt) -> Iterator[str]:
    for guess in guesses(attempt):
        if _holds(guess.attempt):
            yield guess.sentence


def _holds(attempt: Attempt) -> bool:
    try:
        # The scheme is tuned already; the other options still count.
        return isinstance(matched(replace(attempt, options=_rest(attempt.options))), Match)
    except (SignatureInvalid, KeyWanted):
        return False


def _rest(options: Options) -> Options:
    return Options(
        public_url=options.public_url,
        topics=options.topics,
        allow_unsigned=options.allow_unsigned,
    )
