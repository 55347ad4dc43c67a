"""Letters: what is kept beside the frozen bytes comes back as it was."""

import msgspec

from oncebox.model.sends.email import Attachment, Email, SendEnvelope

_LETTER = SendEnvelope(
    sender="shop@example.com",
    recipients=("ann@example.com", "bob@example.com"),
    email=Email(
        sender="Shop <shop@example.com>",
        to="ann@example.com",
        bcc=("bob@example.com",),
        subject="Grüße",
        text="Hi",
        headers={"X-Order": "4821"},
        attachments=[Attachment(name="a.pdf", content=b"\x00\xff")],
        variables={"total": 12, "lines": ["a"]},
    ),
)


def test_a_letter_comes_back_as_it_was() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(_LETTER), type=SendEnvelope) == _LETTER


def test_a_letter_shows_nobody_it_goes_to() -> None:
    assert "example" not in repr(_LETTER)
