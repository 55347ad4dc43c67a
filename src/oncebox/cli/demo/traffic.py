"""Demo traffic: signed webhooks, many copies at once, and mails with a code."""

import json
import secrets
import smtplib
import threading
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email import policy
from email.message import EmailMessage
from functools import partial
from http.client import HTTPConnection
from random import SystemRandom
from urllib.parse import urlsplit

from oncebox.core import clock
from oncebox.webhooks.signing import sign

CONNECTIONS = 8
_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class SignedWebhook:
    """A webhook as its sender repeats it: the same bytes, the same signature."""

    headers: dict[str, str]
    body: bytes


def new_secret() -> str:
    """Return a secret of the Standard Webhooks form."""
    return f"whsec_{b64encode(secrets.token_bytes(24)).decode()}"


def new_webhook(secret: str, type_: str, id_: str) -> SignedWebhook:
    """Return a signed webhook."""
    body = json.dumps({"type": type_, "data": {"id": id_}}).encode()
    headers = sign(secret, f"evt_{id_}", clock.system(), body)
    return SignedWebhook({**headers, "Content-Type": "application/json"}, body)


def post(connection: HTTPConnection, path: str, hook: SignedWebhook) -> int:
    """Send it once; return the status of the answer."""
    connection.request("POST", path, body=hook.body, headers=hook.headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def post_once(url: str, hook: SignedWebhook) -> int:
    """Send it over a connection of its own."""
    connection, path = _open_connection(url)
    try:
        return post(connection, path, hook)
    finally:
        connection.close()


def post_copies(
    url: str, hook: SignedWebhook, copies: int, note: Callable[[str], None]
) -> list[int]:
    """Send copies over several connections, which begin at the same moment; return the answers."""
    start = threading.Barrier(CONNECTIONS)
    answers: list[int] = []
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        share = partial(_post_share, url, hook, copies // CONNECTIONS, start)
        for some in pool.map(lambda _: share(), range(CONNECTIONS)):
            answers += some
            note(f"{len(answers)} of {copies} copies are answered")
    return answers


def _post_share(url: str, hook: SignedWebhook, copies: int, start: threading.Barrier) -> list[int]:
    connection, path = _open_connection(url)
    try:
        connection.connect()
        start.wait(_TIMEOUT)
        return [post(connection, path, hook) for _ in range(copies)]
    except OSError:
        start.abort()  # nobody waits for who cannot come
        raise
    finally:
        connection.close()


def _open_connection(url: str) -> tuple[HTTPConnection, str]:
    parts = urlsplit(url)
    return HTTPConnection(parts.netloc, timeout=_TIMEOUT), parts.path


SENDER = "no-reply@shop.example"
_CODES = range(100_000, 1_000_000)


def new_code() -> str:
    """Return a code that nobody has used."""
    return str(SystemRandom().choice(_CODES))


def code_mail(recipient: str, code: str) -> EmailMessage:
    """Return the mail that brings a code."""
    mail = EmailMessage()
    mail["From"] = SENDER
    mail["To"] = recipient
    mail["Subject"] = "Confirm your account"
    mail["Message-ID"] = f"<{recipient.partition('@')[0]}@shop.example>"
    mail["Date"] = "Mon, 16 Nov 2026 09:00:00 +0000"
    mail.set_content(f"Your verification code is {code}.\n")
    return mail


def deliver_mail(mail: EmailMessage, host: str, port: int) -> int:
    """Hand a mail over by SMTP; return the reply to its dot."""
    with smtplib.SMTP(host, port, local_hostname="localhost") as client:
        client.ehlo()
        client.mail(SENDER)
        client.rcpt(str(mail["To"]))
        code, _ = client.data(mail.as_bytes(policy=policy.SMTP))
    return code
