"""Letters: who a frozen mail goes to and what was asked for, as it is kept beside its bytes."""

import msgspec

from oncebox.model.email import Email


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """What a transport needs besides the frozen bytes."""

    #: of the envelope: where bounces go
    sender: str
    #: of the envelope: all who get it
    recipients: tuple[str, ...]
    #: what it was made of, for providers that write the mail themselves
    email: Email

    def __repr__(self) -> str:
        """Say whom it is for by their number."""
        return f"Letter({len(self.recipients)} recipients)"


def encode(letter: Letter) -> bytes:
    """Return a letter as it is sealed."""
    return msgspec.msgpack.encode(letter)


def decode(data: bytes) -> Letter:
    """Return a letter from what was sealed."""
    return msgspec.msgpack.decode(data, type=Letter)
