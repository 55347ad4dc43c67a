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

from oncebox.testing.loopback import Loopback
from oncebox.testing.smtp_script import Fault, Script
from oncebox.testing.smtp_session import House, Mail, Session

#: what it offers unless told otherwise
EXTENSIONS = ("SIZE 52428800", "8BITMIME", "SMTPUTF8")


class ScriptedSmtp(Loopback):
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
        super().__init__(host, port, tls if implicit_tls else None)
        self._script = Script()
        self._house = House(self._script, tuple(extensions), dict(users or {}), tls, tell=tell)

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

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak SMTP with one client."""
        await Session(self._house, reader, writer).run()


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
