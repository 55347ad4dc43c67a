"""A mail with a code, as a shop sends it, and the program that delivers it."""

import smtplib
from email import policy
from email.message import EmailMessage
from random import SystemRandom

SENDER = "no-reply@shop.example"
_CODES = range(100_000, 1_000_000)


def new_code() -> str:
    """Return a code that nobody has used."""
    return str(SystemRandom().choice(_CODES))


def letter(recipient: str, code: str) -> EmailMessage:
    """Return the mail that brings a code."""
    mail = EmailMessage()
    mail["From"] = SENDER
    mail["To"] = recipient
    mail["Subject"] = "Confirm your account"
    mail["Message-ID"] = f"<{recipient.partition('@')[0]}@shop.example>"
    mail["Date"] = "Mon, 16 Nov 2026 09:00:00 +0000"
    mail.set_content(f"Your verification code is {code}.\n")
    return mail


def deliver(mail: EmailMessage, host: str, port: int) -> int:
    """Hand a mail over by SMTP; return the reply to its dot."""
    with smtplib.SMTP(host, port, local_hostname="localhost") as client:
        client.ehlo()
        client.mail(SENDER)
        client.rcpt(str(mail["To"]))
        code, _ = client.data(mail.as_bytes(policy=policy.SMTP))
    return code
