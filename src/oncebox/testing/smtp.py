"""A mail server that fails as told, and lists what it really took.

    with ScriptedSmtp() as server:
        server.script("accept_then_drop", "451@rcpt")
        ...  # send to server.host, server.port
        assert server.count("<id@example.com>") == 1

In a synchronous block it runs in a thread of its own, in an asynchronous one in the running loop.
``python -m oncebox.testing.smtp`` runs it at a terminal, where it prints what it takes.
"""

import asyncio
import ssl
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping, Sequence
from email import message_from_bytes, policy
from typing import Self

from oncebox.testing.smtp_script import Fault, Script
from oncebox.testing.smtp_session import House, Mail, Session

#: what it offers unless told otherwise
EXTENSIONS = ("SIZE 52428800", "8BITMIME", "SMTPUTF8")
_LONGEST_LINE = 1 << 20
_STOPS_WITHIN = 10.0


class ScriptedSmtp:
    """A server on this machine. What it lists may be read from any thread, at any time."""

    def __init__(  # noqa: PLR0913 - a server simply has this many sides
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        implicit_tls: bool = False,
        users: Mapping[str, str] | None = None,
        extensions: Iterable[str] = EXTENSIONS,
        tell: Callable[[Mail], object] = bool,
    ) -> None:
        """Prepare; 0 takes any free port. With ``tls`` it offers STARTTLS, or speaks TLS at once.

        With ``users`` (names and passwords) mail is taken only after a login. ``tell`` hears of
        every mail that is really taken.
        """
        self.host = host
        self.port = port
        self._implicit = tls if implicit_tls else None
        self._script = Script()
        self._house = House(self._script, tuple(extensions), dict(users or {}), tls, tell=tell)
        self._server: asyncio.Server | None = None
        self._sessions: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: OSError | None = None

    # What it does

    def script(self, *faults: Fault | str) -> None:
        """Let these happen next, one after the other; see ``Fault.named`` for their names."""
        self._script.add(*faults)

    def always(self, *faults: Fault | str) -> None:
        """Let these happen every time; none: all goes well again."""
        self._script.always(*faults)

    def refuse(self, address: str, code: int = 550) -> None:
        """Answer RCPT of one address with a reply."""
        self._house.refused[address] = code

    # What it saw

    @property
    def accepted(self) -> list[Mail]:
        """Every mail that was really taken, whatever the client was told."""
        return list(self._house.accepted)

    def count(self, message_id: str) -> int:
        """How often a mail was really taken."""
        return sum(mail.message_id == message_id for mail in self.accepted)

    @property
    def heard(self) -> list[str]:
        """Every command, without what a login says."""
        return list(self._house.heard)

    @property
    def connections(self) -> int:
        """How many clients came."""
        return self._house.connections

    @property
    def script_is_over(self) -> bool:
        """Whether everything in the script has happened."""
        return self._script.is_over

    # How it runs

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._welcome, self.host, self.port, limit=_LONGEST_LINE, ssl=self._implicit
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None  # noqa: S101 - it was entered
        self._server.close()
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)
        await self._server.wait_closed()

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(ready)), name="scripted-smtp", daemon=True
        )
        self._thread.start()
        if not ready.wait(_STOPS_WITHIN) or self._loop is None:
            message = f"no server could be started on {self.host}:{self.port}"
            raise OSError(message) from self._failure
        return self

    def __exit__(self, *error: object) -> None:
        assert self._loop is not None  # noqa: S101 - it was entered
        assert self._stop is not None  # noqa: S101 - as above
        assert self._thread is not None  # noqa: S101 - as above
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STOPS_WITHIN)

    async def _serve(self, ready: threading.Event) -> None:
        self._stop = asyncio.Event()
        try:
            async with self:
                self._loop = asyncio.get_running_loop()
                ready.set()
                await self._stop.wait()
        except OSError as error:
            self._failure = error
            ready.set()

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = asyncio.get_running_loop().create_task(self._attend(reader, writer))
        self._sessions.add(session)
        session.add_done_callback(self._sessions.discard)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await Session(self._house, reader, writer).run()
        except asyncio.CancelledError:
            writer.transport.abort()
            raise


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve at a terminal until ^C; print one line for each mail that is really taken."""
    parser = ArgumentParser(prog="python -m oncebox.testing.smtp", description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=2526)
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        help="fail so, once, in this order; such as accept_then_drop or 451@rcpt",
    )
    typed = parser.parse_args(arguments)
    server = ScriptedSmtp(host=typed.host, port=typed.port, tell=_print)
    try:
        server.script(*typed.fault)
        with server:
            _say(f"listening at {server.host}:{server.port}; nothing is delivered")
            threading.Event().wait()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        pass


def _print(mail: Mail) -> None:
    header = message_from_bytes(mail.message.partition(b"\r\n\r\n")[0], policy=policy.default)
    _say(f"taken: {mail.message_id} for {', '.join(mail.recipients)}: {header['Subject'] or ''}")


def _say(text: str) -> None:
    """Print one line, in which nothing steers the terminal."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    sys.stdout.write(f"{shown}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
