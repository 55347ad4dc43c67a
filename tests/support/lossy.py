"""A proxy before a real service that loses answers, after the service has done what was asked."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.scripted import Heard, read_request

#: says of the request with this number whether its answer is lost
Loses = Callable[[int, Heard], bool]


@dataclass
class Lossy:
    """Passes requests on, and most answers back."""

    upstream: str
    loses: Loses
    url: str = ""
    heard: list[Heard] = field(default_factory=list)
    lost: list[Heard] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, connection: socket.socket, number: int) -> None:
        """Serve one client until it goes, or until an answer of its is lost."""
        host, _, port = self.upstream.removeprefix("http://").partition(":")
        upstream = http.client.HTTPConnection(host, int(port), timeout=60)
        reader = connection.makefile("rb")
        try:
            while (heard := read_request(reader, number)) is not None:
                if not self._pass_on(heard, upstream, connection):
                    return
        except OSError:
            pass
        finally:
            upstream.close()
            reader.close()
            connection.close()

    def _pass_on(
        self, heard: Heard, upstream: http.client.HTTPConnection, connection: socket.socket
    ) -> bool:
        with self._lock:
            loses = self.loses(len(self.heard), heard)
            self.heard.append(heard)
        upstream.request(heard.method, heard.path, heard.body, heard.headers)
        response = upstream.getresponse()
        body = response.read()
        if loses:
            self.lost.append(heard)
            return False
        lines = [f"HTTP/1.1 {response.status} Passed"]
        lines += [f"{name}: {value}" for name, value in response.getheaders()]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
        return True


@contextmanager
def lossy(upstream: str, loses: Loses) -> Iterator[Lossy]:
    """Stand before a service on a free port."""
    proxy = Lossy(upstream, loses)
    listener = socket.create_server(("127.0.0.1", 0))
    proxy.url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def accept() -> None:
        number = 0
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=proxy.serve, args=(connection, number), daemon=True).start()
            number += 1

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield proxy
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(5)
