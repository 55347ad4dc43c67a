"""DKIM: which domains have signed a mail, and what of it.

dkimpy reads the tags and puts the signed header together; the body is hashed here, once and in
linear time, and the signature itself is checked by cryptography. Nothing is asked: the keys
were fetched before.
"""

import hashlib
from collections.abc import Mapping

from dkim import hash_headers

from oncebox.mail.dkim_key import read_key
from oncebox.mail.dkim_message import Field, SignedMail, Unreadable
from oncebox.mail.dkim_signature import Signature, Unusable, read_place, read_signature
from oncebox.mail.names import ascii_name
from oncebox.model.verdict import DkimResult, Result

#: signatures that are checked; real mail has one to three
MOST_SIGNATURES = 5

_FIELD = b"dkim-signature"
_COVERABLE = (b"date", b"from", b"subject", b"to")
#: fields that a mail has once (RFC 5322, RFC 2045); readers are shown the topmost of several
_SINGLE = frozenset({
    b"bcc", b"cc", b"content-description", b"content-disposition", b"content-id",
    b"content-transfer-encoding", b"content-type", b"date", b"from", b"in-reply-to",
    b"message-id", b"mime-version", b"references", b"reply-to", b"sender", b"subject", b"to",
})  # fmt: skip
#: what a code makes of a signature; all others say that it can never be judged
_RESULTS = {
    "dkim_body_changed": Result.FAIL,
    "dkim_mismatch": Result.FAIL,
    "dkim_key_unreachable": Result.TEMPERROR,
}
_INVALID = DkimResult(result=Result.PERMERROR, flags=("dkim_invalid",))


def key_name(domain: str, selector: str) -> str:
    """Return the name under which a key is published; empty if there can be none."""
    parts = (ascii_name(selector), "_domainkey", ascii_name(domain))
    return ascii_name(".".join(parts)) if all(parts) else ""


def check(raw: bytes, answers: Mapping[str, list[bytes]]) -> tuple[DkimResult, ...]:
    """Return what each signature of a mail proves, the topmost first.

    ``answers`` holds the TXT records of each ``key_name``; an empty list says that there are
    none, and a name that is missing could not be asked for. Never raises, whatever the mail
    and the records hold.
    """
    try:
        return _check(raw, answers)
    except Exception:  # noqa: BLE001 - a mail is anybody's bytes: fail closed
        return (_INVALID,)


def _check(raw: bytes, answers: Mapping[str, list[bytes]]) -> tuple[DkimResult, ...]:
    try:
        mail = SignedMail(raw)
    except Unreadable:
        return (DkimResult(result=Result.PERMERROR, flags=("dkim_odd_lines",)),)
    signed = [field for field in mail.fields if field[0].lower() == _FIELD]
    results = [_judge(mail, field, answers) for field in signed[:MOST_SIGNATURES]]
    if len(signed) > MOST_SIGNATURES:
        results.append(DkimResult(result=Result.NEUTRAL, flags=("dkim_many",)))
    return tuple(results)


def _judge(mail: SignedMail, field: Field, answers: Mapping[str, list[bytes]]) -> DkimResult:
    try:
        signature = read_signature(field)
        return _verify(mail, signature, answers)
    except Unusable as error:
        domain, selector = read_place(field)
        result = _RESULTS.get(error.code, Result.PERMERROR)
        return DkimResult(result=result, domain=domain, selector=selector, flags=(error.code,))
    except Exception:  # noqa: BLE001 - a signature nobody foresaw must not cost the next one
        return _INVALID


def _verify(
    mail: SignedMail, signature: Signature, answers: Mapping[str, list[bytes]]
) -> DkimResult:
    name = key_name(signature.domain, signature.selector)
    if name not in answers:
        raise Unusable("dkim_key_unreachable" if name else "dkim_invalid")
    key = read_key(answers[name], signature)
    partly = _check_body(mail, signature)
    if not key.fits(signature.signature, _header_digest(mail, signature)):
        raise Unusable("dkim_mismatch")
    flags = {"dkim_testing": key.testing, "dkim_body_partly": partly}
    return DkimResult(
        # Whoever caught such a mail may have written the rest of it: that proves nothing.
        result=Result.NEUTRAL if partly else Result.PASS,
        domain=signature.domain,
        selector=signature.selector,
        covers=_covered(mail, signature),
        flags=tuple(flag for flag, raised in flags.items() if raised),
        signed_at=_milliseconds(signature.signed_at),
        expires_at=_milliseconds(signature.expires_at),
    )


def _check_body(mail: SignedMail, signature: Signature) -> bool:
    """Say whether only a part of the body is signed."""
    relaxed, length = signature.relaxed_body, signature.length
    size = mail.body_size(relaxed=relaxed)
    if length is not None and length > size:
        raise Unusable("dkim_body_changed")
    if mail.body_digest(relaxed=relaxed, length=length) != signature.body_hash:
        raise Unusable("dkim_body_changed")
    return length is not None and length < size


def _header_digest(mail: SignedMail, signature: Signature) -> bytes:
    digest = hashlib.sha256()
    # One more of each than was signed: a second one in the mail then breaks the signature.
    names = [*signature.names, *sorted(_SINGLE.intersection(signature.names))]
    fields = signature.policy.canonicalize_headers(mail.fields)
    hash_headers(digest, signature.policy, fields, names, signature.field, {})
    return digest.digest()


def _covered(mail: SignedMail, signature: Signature) -> tuple[str, ...]:
    present = [name.lower() for name, _ in mail.fields]
    # Of a field that is there twice, nobody knows which one a reader is shown.
    return tuple(
        name.decode() for name in _COVERABLE if present.count(name) == 1 and name in signature.names
    )


def _milliseconds(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000
