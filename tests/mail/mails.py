"""Mails for the tests, written as they come over the wire."""

from email.message import EmailMessage
from email.policy import SMTP

from oncebox.mail.limits import ParseLimits
from oncebox.mail.parser import parse
from oncebox.model.inboxes.received_mail import ParsedMail

LIMITS = ParseLimits()
DATE = "Mon, 16 Nov 2026 04:00:00 +0000"


def read(raw: bytes, limits: ParseLimits = LIMITS) -> ParsedMail:
    """Read a mail."""
    return parse(raw, limits)


def plain(body: str | bytes = "Hello", **headers: str) -> bytes:
    """Return a small mail; headers are given as ``message_id="<a@b>"``."""
    fields = {"From": "Ann <ann@example.com>", "Message-Id": "<1@example.com>"}
    fields |= {name.replace("_", "-").title(): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return head.encode() + b"\r\n" + (body.encode() if isinstance(body, str) else body)


def html(body: str, *, charset: str = "utf-8") -> bytes:
    """Return a mail that is HTML alone."""
    return plain(body.encode(charset), content_type=f"text/html; charset={charset}")


def alternative(text: str, markup: str) -> bytes:
    """Return a mail in text and HTML."""
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"] = "Ann <ann@example.com>", "Bob <bob@example.org>"
    mail["Subject"], mail["Date"], mail["Message-ID"] = "Grüße", DATE, "<1@example.com>"
    mail.set_content(text)
    mail.add_alternative(markup, subtype="html")
    return mail.as_bytes()


def nested(depth: int) -> bytes:
    """Return a text inside so many multiparts."""
    lines = ["Content-Type: multipart/mixed; boundary=b0", ""]
    for level in range(depth - 1):
        lines += [f"--b{level}", f"Content-Type: multipart/mixed; boundary=b{level + 1}", ""]
    return "\n".join([*lines, f"--b{depth - 1}", "", "the text", ""]).encode()
