"""Extraction: exactly what was described of an attachment, or nothing; whatever the mail is."""

import base64

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.mime.parts import extract_attachment
from oncebox.mail.parser import parse
from oncebox.model.inboxes.received_mail import ParsedAttachment
from tests.support.steps import steps

CONTENT = bytes(range(256)) * 3


def _mail(*contents: bytes) -> bytes:
    parts = [
        b"--b\r\nContent-Type: application/octet-stream\r\n"
        b"Content-Disposition: attachment; filename=x\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(content)
        for content in contents
    ]
    head = b"From: a@b.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    text = b"--b\r\nContent-Type: text/plain\r\n\r\nhello\r\n"
    return head + text + b"\r\n".join(parts) + b"\r\n--b--\r\n"


def test_every_attachment_comes_out_as_it_was_described() -> None:
    contents = (CONTENT, b"", b"second", CONTENT)
    raw = _mail(*contents)
    described = parse(raw).attachments

    assert [extract_attachment(raw, each) for each in described] == list(contents)


def test_what_the_mail_does_not_hold_is_nothing() -> None:
    raw = _mail(CONTENT)
    (described,) = parse(raw).attachments
    for number in (0, -1, 2, 10**9):
        assert extract_attachment(raw, msgspec.structs.replace(described, number=number)) is None
    assert extract_attachment(raw, msgspec.structs.replace(described, sha256="0" * 64)) is None
    assert extract_attachment(b"", described) is None


@given(st.binary(max_size=400))
def test_no_bytes_break_it(raw: bytes) -> None:
    wanted = ParsedAttachment(
        number=1, name="", media_type="a/b", size=0, sha256="", inline=False, content_id=""
    )

    assert extract_attachment(raw, wanted) is None
    assert all(extract_attachment(raw, each) is not None for each in parse(raw).attachments)


def test_parts_beyond_those_that_are_read_cost_nothing() -> None:
    """The limits of the parser hold here too."""
    begun = _mail(CONTENT).removesuffix(b"--b--\r\n")
    few, many = (begun + b"--b\r\n\r\n" * count for count in (4_000, 40_000))
    (first, *_) = parse(many).attachments

    assert extract_attachment(many, first) == CONTENT
    assert steps(lambda: extract_attachment(many, first)) <= steps(
        lambda: extract_attachment(few, first)
    )
