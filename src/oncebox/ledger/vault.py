"""The vault: what mail says is sealed before it is stored, and opened where it is read.

A sealed value opens only in its own place: for its tenant, in its row, in its column. What was
stored before there was a vault bears no mark and is read as it is.

By what mail is known again is made with the key too: a code has a million forms, and who knows
the rest of a mail would try them all on a plain hash.
"""

import hmac

from oncebox.errors import MasterKeyWrong
from oncebox.mail_errors import MailNotOpened
from oncebox.seal import MasterKey

#: how sealed values begin, with the version of how they are sealed
_MARK = b"\0sealed:1\0"
_START = len(_MARK)
#: bytes from which something is better sealed or opened in a thread
LARGE = 256 * 1024


def mail(tenant: str, payload_id: str) -> bytes:
    """Return the place of a mail's raw bytes."""
    return f"oncebox_payloads.body\0{tenant}\0{payload_id}".encode()


def document(tenant: str, message_id: str) -> bytes:
    """Return the place of what was read of a message."""
    return f"oncebox_messages.document\0{tenant}\0{message_id}".encode()


class Vault:
    """Seals and opens with the master key."""

    def __init__(self, key: MasterKey) -> None:
        """Serve any number of threads at the same time."""
        self._key = key
        self._mails = key.derive("mail mark")
        self._messages = key.derive("message identity")

    def mark(self, mail: bytes) -> bytes:
        """Return by what a mail is known again; it tells nothing without the key."""
        return hmac.digest(self._mails, mail, "sha256")

    def identity(self, said: bytes) -> bytes:
        """Return by what a message is known again, from the hash of what it says; none of none."""
        return hmac.digest(self._messages, said, "sha256") if said else b""

    def seal(self, plain: bytes, place: bytes) -> bytes:
        """Return what may be stored in a place, and nowhere else."""
        return self._key.seal(plain, bound_to=place, mark=_MARK)

    def open(self, stored: bytes, place: bytes) -> bytes:
        """Return what was stored in a place, sealed or not.

        Raises: MailNotOpened.
        """
        if not stored.startswith(_MARK):
            return stored
        try:
            return self._key.open(memoryview(stored)[_START:], bound_to=place)
        except MasterKeyWrong as error:
            message = (
                "this mail is damaged, or was sealed with another master key or for another row; "
                "restore it from a backup"
            )
            raise MailNotOpened(message) from error
