"""The postman sends again until he is told, and never after a final word."""

import contextlib
import itertools
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Self

from tests.support.ports import free_port
from tests.torture.history import Kind, read_history
from tests.torture.mail.letters import letters, parcels
from tests.torture.mail.postman import Postman

#: Answers the end of the nth mail; nothing hangs up without a word.
Answer = Callable[[int], bytes]


class _Receiver:
    """Takes mail in the plainest way."""

    def __init__(self, port: int, answer: Answer) -> None:
        self.taken: list[bytes] = []
        self._answer = answer
        self._lock = threading.Lock()
        self._mails = itertools.count()
        self._listening = socket.create_server(("127.0.0.1", port))

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with line, line.makefile("rb") as words, contextlib.suppress(OSError):
            line.sendall(b"220 x\r\n")
            while command := words.readline():
                said = self._take(line, words) if command.startswith(b"data") else b"250 yes\r\n"
                if not said:
                    return
                line.sendall(said)

    def _take(self, line: socket.socket, words: BinaryIO) -> bytes:
        line.sendall(b"354 go on\r\n")
        body = b"".join(iter(words.readline, b".\r\n"))
        with self._lock:
            said = self._answer(next(self._mails))
            if said.startswith(b"2"):
                self.taken.append(body)
        return said


def _counted(history: Path) -> Counter[Kind]:
    return Counter(event.kind for event in read_history(history))


def test_every_parcel_is_told_once_whatever_happens_on_the_way(tmp_path: Path) -> None:
    drawn = letters("1", 8, ["a@oncebox.test", "b@oncebox.test"])
    port = free_port()
    every = parcels(drawn)
    answers = {0: b"", 1: b"451 later\r\n", 3: b"", 5: b"421 closing\r\n"}
    with (
        Postman(port, every, tmp_path / "history") as postman,
        _Receiver(port, lambda mail: answers.get(mail, b"250 taken\r\n")) as receiver,
    ):
        assert postman.finish(20)
        assert not postman.waiting

    counted = _counted(tmp_path / "history")
    assert len(receiver.taken) == counted[Kind.OK] == len(every)
    assert counted[Kind.INFO] >= 4
    assert counted[Kind.FAIL] == 0


def test_a_final_word_is_noted_and_final(tmp_path: Path) -> None:
    port = free_port()
    every = parcels(letters("1", 3, ["a@oncebox.test", "b@oncebox.test"]))
    with (
        _Receiver(port, lambda _: b"554 never\r\n"),
        Postman(port, every, tmp_path / "history") as postman,
    ):
        assert postman.finish(20)

    assert _counted(tmp_path / "history")[Kind.FAIL] == len(every)


def test_a_postman_who_is_let_go_stops(tmp_path: Path) -> None:
    every = parcels(letters("1", 3, ["a@oncebox.test", "b@oncebox.test"]))
    with Postman(free_port(), every, tmp_path / "history") as postman:
        assert not postman.finish(0.2)

    assert not postman.waiting
