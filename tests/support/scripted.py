"""An HTTP server on a real socket that does to each request what a script says."""

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Heard:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float
    #: which connection it came on, counted from zero
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


#: does something to a connection on which a request was heard; says whether it stays open
Act = Callable[[socket.socket], bool]


@dataclass
class Script:
    """What is done to the requests, one after another; the last act is repeated."""

    acts: list[Act]
    heard: list[Heard] = field(default_factory=list)
    url: str = ""
    tls: ssl.SSLContext | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, request: Heard) -> Act:
        """Note a request; return what is to be done to it."""
        with self._lock:
            self.heard.append(request)
            return self.acts[min(len(self.heard), len(self.acts)) - 1]

    @property
    def pauses(self) -> list[float]:
        """Seconds between one request and the next."""
        return [after.at - before.at for before, after in pairwise(self.heard)]


def answer(
    value: object = None, status: int = 200, content_type: str = "application/json", **headers: str
) -> Act:
    """Answer with JSON, or with bytes as they are."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return raw(_head(status, content_type, len(body), headers) + body)


def problem(code: str, status: int, *, retry_safe: bool = False, **headers: str) -> Act:
    """Answer as the service refuses."""
    told = {
        "type": f"/problems/{code}",
        "title": "It cannot be.",
        "status": status,
        "detail": f"this is {code}",
        "instance": "urn:oncebox:request:req_1",
        "code": code,
        "retry_safe": retry_safe,
        "request_id": "req_1",
        "errors": [{"pointer": "/name", "detail": "too long"}],
    }
    return answer(told, status, "application/problem+json", **headers)


def raw(data: bytes) -> Act:
    """Send bytes and stay."""

    def act(connection: socket.socket) -> bool:
        connection.sendall(data)
        return True

    return act


def cut(data: bytes = b"") -> Act:
    """Send perhaps a part of an answer, and close."""

    def act(connection: socket.socket) -> bool:
        connection.sendall(data)
        return False

    return act


def reset() -> Act:
    """Break the connection hard."""

    def act(connection: socket.socket) -> bool:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    return act


def silence(seconds: float = 30.0) -> Act:
    """Say nothing, until the client has gone."""

    def act(connection: socket.socket) -> bool:
        connection.settimeout(seconds)
        with suppress(OSError):
            connection.recv(1)
        return False

    return act


def late(seconds: float, then: Act) -> Act:
    """Do something after a while."""

    def act(connection: socket.socket) -> bool:
        time.sleep(seconds)
        return then(connection)

    return act


def drip(data: bytes, every: float = 0.05) -> Act:
    """Send an answer byte by byte."""

    def act(connection: socket.socket) -> bool:
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(every)
        return True

    return act


@contextmanager
def scripted(*acts: Act, tls: ssl.SSLContext | None = None) -> Iterator[Script]:
    """Serve by a script on a free port."""
    script = Script(list(acts), tls=tls)
    listener = socket.create_server(("127.0.0.1", 0))
    scheme = "http" if tls is None else "https"
    script.url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
    accepting = threading.Thread(target=_accept, args=(listener, script), daemon=True)
    accepting.start()
    try:
        yield script
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(5)


@contextmanager
def nobody() -> Iterator[str]:
    """Return an address where nothing listens, though it is taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def _accept(listener: socket.socket, script: Script) -> None:
    number = 0
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection, script, number), daemon=True).start()
        number += 1


def _serve(connection: socket.socket, script: Script, number: int) -> None:
    try:
        if script.tls is not None:
            connection = script.tls.wrap_socket(connection, server_side=True)
    except OSError:  # a client that does not trust us
        connection.close()
        return
    reader = connection.makefile("rb")
    try:
        while (heard := read_request(reader, number)) is not None:
            if not script.hear(heard)(connection):
                return
    except OSError:
        pass
    finally:
        reader.close()
        connection.close()


def read_request(reader: Any, number: int) -> Heard | None:
    first = reader.readline().decode("latin-1").split()
    if not first:
        return None
    headers = {}
    while line := reader.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    return Heard(first[0], first[1], headers, body, time.monotonic(), number)


def _head(status: int, content_type: str, size: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {content_type}"]
    if status != 204:
        lines.append(f"content-length: {size}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
