"""The standard library reads the same fields of the same mails, and stores nothing."""

from __future__ import annotations

import email
import email.policy
import hashlib
import sys
import time
from email.message import EmailMessage
from typing import Any

from bench import load
from bench.mails import html_mail, mail, pin

SECONDS = 5.0


def read(raw: bytes) -> dict[str, Any]:
    """Return what we keep of a mail too."""
    message: EmailMessage = email.message_from_bytes(raw, policy=email.policy.default)
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    people = {
        name: [(each.display_name, each.addr_spec) for each in message[name].addresses]
        for name in ("from", "to", "cc", "reply-to")
        if message[name] is not None
    }
    return {
        "message_id": message["message-id"],
        "date": message["date"].datetime if message["date"] else None,
        "subject": str(message["subject"]),
        "people": people,
        "headers": [(name.lower(), str(value)) for name, value in message.items()],
        "text": plain.get_content() if plain else "",
        "html": html.get_content() if html else "",
        "attachments": [
            (part.get_filename(), hashlib.sha256(part.get_content()).hexdigest())
            for part in message.iter_attachments()
        ],
    }


def main() -> None:
    """Report how many mails are read a second on one core."""
    pin()
    made = (lambda number: html_mail(number, 30 * 1024)) if "--html" in sys.argv else mail
    mails = [made(number) for number in range(200)]
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        assert read(mails[count % len(mails)])["subject"]
        count += 1
    load.report(count / (time.perf_counter() - began), "one core")


if __name__ == "__main__":
    main()
