"""A sender as mail servers are: several connections, and each mail again until it is told 250."""

import contextlib
import smtplib
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, Self

from tests.torture.history import History

#: How long it waits before it knocks again, in seconds.
_REST = 0.05
#: How long it pauses after each mail, so that not all of them share one commit.
_PAUSE = 0.03
_TIMEOUT = 30.0
#: Answers from here on are final: a mail server would send the mail back.
_FINAL = 500


class Letter(Protocol):
    """A mail that is brought, over one of its relays."""

    @property
    def key(self) -> str:
        """What it is called in the history."""

    @property
    def sender(self) -> str:
        """The address it comes from."""

    @property
    def recipients(self) -> tuple[str, ...]:
        """The addresses it goes to."""

    def data(self, relay: int) -> bytes:
        """Return its bytes as they come over one of its relays."""


class Postman:
    """Brings parcels to one port over a few connections, through any number of receivers."""

    def __init__(
        self, port: int, parcels: Sequence[tuple[Letter, int]], history: Path, *, lines: int = 3
    ) -> None:
        """Prepare; ``start`` begins to send."""
        self._port = port
        self._parcels = iter(parcels)
        self._lock = threading.Lock()
        self._history = History(history)
        self._given_up = threading.Event()
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(lines)]

    def __enter__(self) -> Self:
        """Begin to send."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Give up what is left."""
        self._given_up.set()
        for thread in self._threads:
            thread.join(_TIMEOUT + 1)
        self._history.close()

    @property
    def waiting(self) -> bool:
        """Whether something was not yet told to be taken."""
        return any(thread.is_alive() for thread in self._threads)

    def finish(self, timeout: float) -> bool:
        """Wait until everything was told to be taken; say whether it was."""
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not self.waiting

    def _send(self) -> None:
        line = _Line(self._port)
        for letter, relay in self._drawn():
            while not self._given_up.is_set() and not self._told(line, letter, relay):
                time.sleep(_REST)
            time.sleep(_PAUSE)
        line.close()

    def _drawn(self) -> Iterator[tuple[Letter, int]]:
        while not self._given_up.is_set():
            with self._lock:
                parcel = next(self._parcels, None)
            if parcel is None:
                return
            yield parcel

    def _told(self, line: "_Line", letter: Letter, relay: int) -> bool:
        """Send once; say whether it need not be sent again."""
        call = self._history.invoke("mail", letter.key)
        try:
            line.send(letter, relay)
        except _Refused as refused:
            call.fail(str(refused))
            return True
        except (smtplib.SMTPException, OSError) as error:
            line.close()
            call.info(type(error).__name__)
            return False
        call.ok()
        return True


class _Refused(Exception):
    """The receiver says that the mail will never be taken."""


class _Line:
    """A connection, made when it is needed and made again when it was lost."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._smtp: smtplib.SMTP | None = None

    def send(self, letter: Letter, relay: int) -> None:
        """Return when every recipient was taken."""
        if self._smtp is None:
            self._smtp = smtplib.SMTP("127.0.0.1", self._port, timeout=_TIMEOUT)
        try:
            unheard = self._smtp.sendmail(letter.sender, letter.recipients, letter.data(relay))
            codes = [code for code, _ in unheard.values()]
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
        except smtplib.SMTPResponseException as error:
            codes = [error.smtp_code]
        if any(code >= _FINAL for code in codes):
            raise _Refused(f"{max(codes)}")
        if codes:
            message = f"not now: {codes}"
            raise OSError(message)

    def close(self) -> None:
        """Hang up."""
        if self._smtp is not None:
            with contextlib.suppress(OSError):
                self._smtp.close()
        self._smtp = None
