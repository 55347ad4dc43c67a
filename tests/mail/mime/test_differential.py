"""Beside other readers: we read what they read, and every difference is explained."""

import hashlib
from collections.abc import Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP, default
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fast_mail_parser
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncebox.model.inboxes.received_mail import SenderStatus
from tests.mail.mails import DATE, read
from tests.support.shared import shared

CORPUS = "data/mail-corpus"

#: why we and another reader may differ
WRONG_CHARSET = "UTF-8 under another name is read as UTF-8 by us, and flagged"
STRICT_SENDER = "a sender counts for nothing where the header can be read in two ways"
NO_BOUNDARY = "a multipart that names no boundary is shown as it is; others show nothing"
NO_PARTS = "a multipart in which no part is found is nothing; email makes an attachment of it"
ALL_FIELDS = "all fields of a name count, not only the first"
ODD_TYPE = "a Content-Type without a slash is text, as RFC 2045 says"
ODD_DATE = "a date without seconds is a date"
OUTER_WINS = "a boundary line of an outer multipart ends the inner ones"
IN_PIECES = "a boundary may be written with a charset (RFC 2231)"
REFUSED = "a part that does not decode is read as far as it goes; others refuse the mail"

#: file, reader, what differs, and why
EXPLAINED = {
    ("raw-mail__discover-card-news", "email", "text"): WRONG_CHARSET,
    ("raw-mail__discover-card-news", "fast-mail-parser", "text"): WRONG_CHARSET,
    ("msg_14", "fast-mail-parser", "text"): ODD_TYPE,
    ("msg_14", "fast-mail-parser", "attachments"): ODD_TYPE,
    ("msg_15", "email", "attachments"): NO_PARTS,
    ("msg_17", "email", "attachments"): NO_PARTS,
    ("msg_20", "fast-mail-parser", "cc"): ALL_FIELDS,
    ("msg_25", "email", "text"): NO_BOUNDARY,
    ("msg_25", "email", "attachments"): NO_BOUNDARY,
    ("msg_25", "fast-mail-parser", "text"): NO_BOUNDARY,
    ("msg_25", "fast-mail-parser", "to"): ALL_FIELDS,
    ("msg_31", "email", "attachments"): NO_PARTS,
    ("msg_33", "fast-mail-parser", "text"): IN_PIECES,
    ("msg_35", "email", "sender"): STRICT_SENDER,
    ("msg_35", "fast-mail-parser", "sender"): STRICT_SENDER,
    ("msg_38", "fast-mail-parser", "text"): OUTER_WINS,
    ("msg_39", "email", "attachments"): NO_PARTS,
    ("msg_39", "fast-mail-parser", "all"): REFUSED,
    ("msg_41", "email", "text"): NO_BOUNDARY,
    ("msg_41", "email", "attachments"): NO_BOUNDARY,
    ("msg_41", "fast-mail-parser", "text"): NO_BOUNDARY,
    ("msg_47", "fast-mail-parser", "date"): ODD_DATE,
}


def bare(text: object) -> str:
    return "".join(str(text or "").split())


def lowered(address: str) -> str:
    local, at, domain = address.rpartition("@")
    return f"{local}{at}{domain.lower()}"


def ours(raw: bytes) -> dict[str, Any]:
    parsed = read(raw)
    opaque = [each for each in parsed.attachments if each.media_type.startswith("message/")]
    return {
        "subject": bare(parsed.subject),
        "message_id": bare(parsed.message_id),
        "date": parsed.date,
        "to": [each.address for each in parsed.to],
        "cc": [each.address for each in parsed.cc],
        "reply_to": [each.address for each in parsed.reply_to],
        "sender": parsed.sender.address,
        "text": bare(parsed.text) if parsed.text_from == "plain" else None,
        "attachments": [each.sha256 for each in parsed.attachments if each not in opaque],
        "mails": len(opaque),
    }


def by_email(raw: bytes) -> dict[str, Any]:
    mail = message_from_bytes(raw, policy=default)
    texts, attached, mails = [], [], 0
    for part in _leaves(mail):
        if part.get_content_maintype() == "message":
            mails += 1
        elif part.is_attachment() or part.get_content_type() not in {"text/plain", "text/html"}:
            attached.append(hashlib.sha256(part.get_payload(decode=True) or b"").hexdigest())
        elif part.get_content_type() == "text/plain":
            texts.append(bare(part.get_content()))
    moment = mail["date"].datetime if mail["date"] is not None else None
    people = {
        name: [
            lowered(each.addr_spec)
            for field in mail.get_all(name, [])
            for each in field.addresses
            if each.domain
        ]
        for name in ("from", "to", "cc", "reply-to")
    }
    return {
        "subject": bare(mail["subject"]),
        "message_id": bare(mail["message-id"]),
        "date": int(moment.timestamp() * 1000) if moment else None,
        "to": people["to"],
        "cc": people["cc"],
        "reply_to": people["reply-to"],
        "sender": people["from"][0] if people["from"] else "",
        "text": "".join(texts),
        "attachments": attached,
        "mails": mails,
    }


def _leaves(part: Any) -> Iterator[Any]:
    """Yield the parts with content; a mail inside a mail is one."""
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        for inner in part.get_payload():
            yield from _leaves(inner)
    else:
        yield part


def by_fast_mail_parser(raw: bytes) -> dict[str, Any]:
    mail = fast_mail_parser.parse_email(raw)
    headers = {name.lower(): values for name, values in mail.headers.items()}
    opaque = [each for each in mail.attachments if each.mimetype.startswith("message/")]
    moment = mail.date_parsed
    return {
        "subject": bare(mail.subject),
        "message_id": bare(headers.get("message-id", [""])[0]),
        "date": int(moment.timestamp() * 1000) if moment else None,
        "to": [lowered(each.address) for each in mail.to],
        "cc": [lowered(each.address) for each in mail.cc],
        "reply_to": [lowered(each.address) for each in mail.reply_to],
        "sender": lowered(mail.from_.address) if mail.from_ else "",
        "text": "".join(map(bare, mail.text_plain)),
        "attachments": [
            hashlib.sha256(each.content).hexdigest()
            for each in mail.attachments
            if each not in opaque
        ],
        "mails": len(opaque),
    }


READERS = {"email": by_email, "fast-mail-parser": by_fast_mail_parser}


#: file, reader and field, with what we read and what they read
Differences = dict[tuple[str, str, str], tuple[object, object]]


def differences(name: str, raw: bytes) -> Differences:
    """Return where another reader reads something else."""
    mine = ours(raw)
    found: Differences = {}
    for reader, function in READERS.items():
        try:
            theirs = function(raw)
        except fast_mail_parser.ParseError:
            found[name, reader, "all"] = ("read", "refused")
            continue
        for field, value in theirs.items():
            # HTML in the place of a missing text is ours alone.
            if mine[field] != value and mine[field] is not None:
                found[name, reader, field] = (mine[field], value)
    return found


def test_we_read_the_corpus_as_others_do() -> None:
    found: Differences = {}
    for path in sorted(shared(CORPUS).glob("*.eml")):
        found |= differences(path.stem, path.read_bytes())

    assert {key: pair for key, pair in found.items() if key not in EXPLAINED} == {}


def _stdlib_mails() -> list[Path]:
    """Return the mails that Python tests itself with, where they are installed."""
    found = find_spec("test.test_email") if find_spec("test") else None
    folder = Path(found.origin).parent / "data" if found and found.origin else None
    return sorted(folder.glob("msg_*.txt")) if folder and folder.is_dir() else []


def test_we_read_pythons_own_odd_mails_as_others_do() -> None:
    mails = _stdlib_mails()
    if not mails:
        pytest.skip("this Python comes without its tests")
    found: Differences = {}
    for path in mails:
        found |= differences(path.stem, path.read_bytes())

    assert {key: pair for key, pair in found.items() if key not in EXPLAINED} == {}


words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)
lines = st.lists(words, min_size=1, max_size=12).map(" ".join)
atoms = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=10)
mailboxes = st.tuples(st.lists(atoms, max_size=3).map(" ".join), atoms, atoms).map(
    lambda each: f"{each[0]} <{each[1]}@{each[2]}.example>".strip()
)


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    lines,
    lines,
    mailboxes,
    st.lists(mailboxes, min_size=1, max_size=4),
    st.lists(st.tuples(atoms, st.binary(max_size=300)), max_size=3),
    st.sampled_from(["quoted-printable", "base64", "8bit"]),
)
def test_what_is_well_formed_is_read_alike_by_all(
    subject: str,
    text: str,
    sender: str,
    to: list[str],
    attached: list[tuple[str, bytes]],
    encoding: str,
) -> None:
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"] = sender, ", ".join(to)
    mail["Subject"], mail["Date"], mail["Message-ID"] = subject, DATE, "<1@a.example>"
    mail.set_content(text, cte=encoding)
    for name, content in attached:
        mail.add_attachment(content, maintype="application", subtype="x", filename=name)
    raw = mail.as_bytes()

    assert differences("made", raw) == {}
    parsed = read(raw)
    assert parsed.sender.standing is SenderStatus.SINGLE
    assert [each.name for each in parsed.attachments] == [name for name, _ in attached]
