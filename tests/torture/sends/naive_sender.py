"""The pattern that is published everywhere: ``SET NX``, send, store the result, delete on error.

It is tortured as Oncebox is, at the same moments, and must be seen to fail. Asked again by a
program that was started again, it says what it says.
"""

import argparse
import smtplib
import sys
from collections.abc import Sequence
from email import message_from_bytes, policy
from pathlib import Path

from oncebox.core import faults
from tests.torture.history import History
from tests.torture.sends.mails import keys, mail
from tests.torture.sends.redis import Redis

#: Seven days, as it is published.
_KEPT = str(7 * 24 * 3600)
_TRIES = 3


async def main(given: argparse.Namespace) -> None:
    """Send everything; try again what raised, as the pattern says."""
    with History(given.history) as history, Redis(given.redis) as redis:
        for key in keys(given.trial, given.count):
            call = history.invoke("send", key)
            call.ok(note=_insist(redis, key, given.port))
    sys.stdout.write("asked\n")


def _insist(redis: Redis, key: str, port: int) -> str:
    for _ in range(_TRIES):
        try:
            return attempt_send(redis, key, port)
        except Exception:  # noqa: BLE001, S112 - the pattern tries again, whatever it was
            continue
    return "failed"


def attempt_send(redis: Redis, key: str, port: int) -> str:
    """Send under a lock, as published."""
    if redis.ask("SET", f"lock:{key}", "1", "NX", "EX", _KEPT) is None:
        return "duplicate" if redis.ask("GET", f"result:{key}") else "in_flight"
    faults.point("sends.claimed")
    try:
        message_id = _send(key, port)
        redis.ask("SET", f"result:{key}", message_id, "EX", _KEPT)
    except Exception:
        redis.ask("DEL", f"lock:{key}")
        raise
    faults.point("sends.result_committed")
    return "sent"


def message_id_of(key: str) -> str:
    """Return the Message-ID of a key: its mails are known again by it."""
    return f"<{key}@naive.example.com>"


def _send(key: str, port: int) -> str:
    """Hand over one mail; it is written out so that it can be cut at every moment."""
    email, message_id = mail(key), message_id_of(key)
    written = message_from_bytes(b"", policy=policy.SMTP)
    written["From"], written["To"] = email.sender, email.to[0]
    written["Message-ID"], written["Subject"] = message_id, email.subject
    written.set_payload(email.text)
    with smtplib.SMTP("127.0.0.1", port, timeout=5) as line:
        faults.point("sends.connected")
        line.ehlo()
        line.mail(email.sender)
        _expect(line.rcpt(email.to[0])[0], 250)
        _expect(line.docmd("DATA")[0], 354)
        line.send(written.as_bytes().replace(b"\r\n.", b"\r\n..") + b"\r\n")
        faults.point("sends.body_drained")
        line.send(b".\r\n")
        faults.point("sends.handed_over")
        _expect(line.getreply()[0], 250)
        faults.point("sends.reply_read")
    return message_id


def _expect(code: int, wanted: int) -> None:
    if code != wanted:
        raise smtplib.SMTPResponseException(code, b"")


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("redis", type=int)
    parser.add_argument("port", type=int)
    parser.add_argument("history", type=Path)
    parser.add_argument("trial")
    parser.add_argument("--count", type=int, default=6)
    return parser.parse_args(arguments)
