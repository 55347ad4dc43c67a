"""Letters: mails too large to be kept in memory while they come in."""

import errno

from oncebox.edge.smtp import replies
from oncebox.edge.smtp.content import Content
from oncebox.edge.smtp.spool import Spool
from oncebox.errors import DiskFull

#: trouble of the system that means that there is no room
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Letter:
    """One large mail: what of it is on disk."""

    def __init__(self, spool: Spool, content: Content) -> None:
        """Begin with nothing."""
        self.content = content
        self._file = spool.file()

    async def catch_up(self) -> None:
        """Bring what has come to disk; where that fails, the mail is refused at its end."""
        try:
            await self._file.add(self.content.release())
        except OSError as error:
            self.content.refuse(trouble(error))

    async def whole(self) -> bytes:
        """Return the mail.

        Raises: OSError.
        """
        return await self._file.read()

    def close(self) -> None:
        """Let go of it."""
        self._file.close()


def trouble(error: BaseException) -> bytes:
    """Return the reply that lets a sender try again, whatever happened to us."""
    full = isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in _NO_ROOM)
    return replies.FULL if full else replies.TROUBLE
