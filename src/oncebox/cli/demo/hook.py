"""Signed webhooks, and a storm of copies of one."""

import json
import secrets
import threading
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from urllib.parse import urlsplit

from oncebox import clock
from oncebox.signature.signing import sign

CONNECTIONS = 8
_WITHIN = 30.0


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook as its sender repeats it: the same bytes, the same signature."""

    headers: dict[str, str]
    body: bytes


def new_secret() -> str:
    """Return a secret of the Standard Webhooks form."""
    return f"whsec_{b64encode(secrets.token_bytes(24)).decode()}"


def new_hook(secret: str, type_: str, id_: str) -> Hook:
    """Return a signed webhook."""
    body = json.dumps({"type": type_, "data": {"id": id_}}).encode()
    headers = sign(secret, f"evt_{id_}", clock.system(), body)
    return Hook({**headers, "Content-Type": "application/json"}, body)


def send(connection: HTTPConnection, path: str, hook: Hook) -> int:
    """Send it once; return the status of the answer."""
    connection.request("POST", path, body=hook.body, headers=hook.headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def send_once(url: str, hook: Hook) -> int:
    """Send it over a connection of its own."""
    connection, path = _opened(url)
    try:
        return send(connection, path, hook)
    finally:
        connection.close()


def storm(url: str, hook: Hook, copies: int, note: Callable[[str], None]) -> list[int]:
    """Send copies over several connections, which begin at the same moment; return the answers."""
    start = threading.Barrier(CONNECTIONS)
    answers: list[int] = []
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        share = partial(_share, url, hook, copies // CONNECTIONS, start)
        for some in pool.map(lambda _: share(), range(CONNECTIONS)):
            answers += some
            note(f"{len(answers)} of {copies} copies are answered")
    return answers


def _share(url: str, hook: Hook, copies: int, start: threading.Barrier) -> list[int]:
    connection, path = _opened(url)
    try:
        connection.connect()
        start.wait(_WITHIN)
        return [send(connection, path, hook) for _ in range(copies)]
    except OSError:
        start.abort()  # nobody waits for who cannot come
        raise
    finally:
        connection.close()


def _opened(url: str) -> tuple[HTTPConnection, str]:
    parts = urlsplit(url)
    return HTTPConnection(parts.netloc, timeout=_WITHIN), parts.path
