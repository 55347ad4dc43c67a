"""Content: a mail on its way in, from the 354 to the lone dot, judged and unstuffed in bulk.

A line ends with CR LF and nothing else does; the mail ends with a dot between two of them and
nothing else does. Where a bare CR or LF is found, other servers may see another end than we do,
so such a mail is refused at its true end, and nothing that follows it is heard.
"""

import re

from oncebox import faults
from oncebox.edge.smtp import replies

_END = b"\r\n.\r\n"
_LINE_END = b"\r\n"
_DOT = b"\r\n."
# With as many CR as LF, a bare LF never comes without a bare CR.
_BARE_CR = re.compile(rb"\r(?:[^\n]|\Z)")
#: what the rest of a piece may be the beginning of, the longest first
_HALF_ENDS = (b"\r\n.\r", b"\r\n.", b"\r\n", b"\r")
#: bytes that are still read, and thrown away, beyond the largest mail
SLACK = 64 * 1024


class Content:
    """The mail of one transaction."""

    __slots__ = (
        "_bare", "_carry", "_limit", "_line", "_longest", "_skip", "_too_long", "held", "pieces",
        "refusal", "size",
    )  # fmt: skip

    def __init__(self, *, size: int, line: int) -> None:
        """Take mails up to a size, with lines up to another."""
        self._limit = size
        self._longest = line
        #: bytes that may be the beginning of the end; the mail begins as if after a line
        self._carry = _LINE_END
        #: bytes of the first piece that are no part of the mail
        self._skip = len(_LINE_END)
        #: bytes of the line that is not over yet
        self._line = 0
        self._bare = False
        self._too_long = False
        #: the mail so far, as far as nobody has taken it away
        self.pieces: list[bytes] = []
        self.held = 0
        #: bytes of the mail, taken away or not
        self.size = 0
        #: why it cannot be kept, whatever else is wrong with it
        self.refusal: bytes | None = None

    @property
    def is_endless(self) -> bool:
        """Whether it is so far beyond the limit that its end is not waited for."""
        return self.size > self._limit + SLACK

    @property
    def fault(self) -> bytes | None:
        """The reply that refuses the mail, if it must be refused."""
        if self._bare:
            return replies.BARE_IN_MAIL
        if self.size > self._limit:
            return replies.TOO_LARGE
        return replies.MAIL_LINE_TOO_LONG if self._too_long else self.refusal

    def feed(self, data: bytes) -> bytes | None:
        """Take the next bytes; return what follows the mail, or None if it is not over."""
        faults.point("smtp.after-354")
        data = self._carry + data
        # In most mails the first dot at the beginning of a line is the last.
        dot = data.find(_DOT)
        end = dot if dot < 0 or data.startswith(_END, dot) else data.find(_END, dot)
        if end >= 0:
            self._take(data[: end + len(_LINE_END)], is_stuffed=dot < end)
            return data[end + len(_END) :]
        half = next((half for half in _HALF_ENDS if data.endswith(half)), b"")
        self._carry = half
        if len(half) < len(data):
            self._take(data[: len(data) - len(half)], is_stuffed=dot >= 0)
        return None

    def release(self) -> list[bytes]:
        """Hand over what is held."""
        pieces, self.pieces, self.held = self.pieces, [], 0
        return pieces

    def refuse(self, reply: bytes) -> None:
        """Keep nothing, and say why at the end."""
        self.refusal = reply
        self.release()

    def _take(self, data: bytes, *, is_stuffed: bool) -> None:
        """Take bytes that have no part of a line end without the rest of it."""
        if data.count(b"\r") != data.count(b"\n") or _BARE_CR.search(data):
            self._bare = True
        self._measure(data)
        if is_stuffed:
            data = data.replace(_DOT, _LINE_END)
        if self._skip:
            data = data[self._skip :]
            self._skip = 0
        self.size += len(data)
        if self._bare or self._too_long or self.refusal or self.size > self._limit:
            self.release()
        else:
            self.pieces.append(data)
            self.held += len(data)

    def _measure(self, data: bytes) -> None:
        """See that no line is too long; most pieces are shorter than a line may be."""
        if self._line + len(data) > self._longest:
            first, *others = data.split(_LINE_END)
            if self._line + len(first) > self._longest or any(
                len(line) > self._longest for line in others
            ):
                self._too_long = True
        last = data.rfind(_LINE_END)
        if last < 0:
            self._line += len(data)
        else:
            self._line = len(data) - last - len(_LINE_END)
