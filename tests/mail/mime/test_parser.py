"""Parsing: headers, charsets, texts, attachments, and what makes it the same message."""

import base64
import hashlib

import msgspec
import pytest

from oncebox.mail.limits import LIMIT_WARNINGS, WARNING_MEANINGS
from oncebox.model.inboxes.received_mail import Extraction, ParsedMail, ParseStatus
from tests.mail.mails import DATE, alternative, html, plain, read
from tests.support.shared import shared


def test_the_bulk_of_the_corpus_is_read_in_full() -> None:
    mails = sorted(shared("data/mail-corpus").glob("*.eml"))
    every = [read(path.read_bytes()) for path in mails]

    assert len(every) > 150
    assert {parsed.status for parsed in every} == {ParseStatus.PARSED}
    assert all(parsed.text or parsed.subject for parsed in every)
    assert all(len(parsed.identity) == 32 for parsed in every)


def test_every_code_that_the_corpus_needs_is_on_display() -> None:
    """Nothing that a person must see is taken for hidden."""
    folder = shared("data/mail-corpus")
    for line in (folder / "labels.jsonl").read_bytes().splitlines():
        label = msgspec.json.decode(line)
        parsed = read((folder / label["file"]).read_bytes())
        shown = "".join((label["otp_display"] or "").split())

        assert shown in "".join((parsed.subject + parsed.text).split()), label["file"]


def test_a_mail_is_normalised() -> None:
    parsed = read(alternative("Hello", "<p>Hello</p>"))

    assert parsed.status is ParseStatus.PARSED
    assert parsed.message_id == "<1@example.com>"
    assert parsed.date == 1_794_801_600_000
    assert parsed.subject == "Grüße"
    assert parsed.sender.address == "ann@example.com"
    assert [each.address for each in parsed.to] == ["bob@example.org"]
    assert (parsed.text, parsed.text_from, parsed.warnings) == ("Hello", "plain", ())


def test_what_was_parsed_survives_the_road_to_another_process() -> None:
    parsed = read(alternative("Hello", "<p>Hello</p>"))
    packed = msgspec.msgpack.encode(parsed)

    assert msgspec.msgpack.decode(packed, type=ParsedMail) == parsed
    assert msgspec.json.decode(msgspec.json.encode(parsed), type=ParsedMail) == parsed


def test_every_warning_has_a_meaning() -> None:
    assert set(WARNING_MEANINGS) >= LIMIT_WARNINGS
    assert list(WARNING_MEANINGS) == sorted(WARNING_MEANINGS)


# headers


def test_repeated_headers_are_arrays_and_their_order_is_kept() -> None:
    parsed = read(b"Received: one\nX-A: a\nRECEIVED: two\n folded\n\nhi")

    assert parsed.headers == (("received", ("one", "two folded")), ("x-a", ("a",)))


@pytest.mark.parametrize(
    ("field", "subject"),
    [
        (b"=?utf-8?q?Gr=C3=BC=C3=9Fe?=", "Grüße"),
        (b"=?UTF-8?B?R3LDvMOfZQ==?=", "Grüße"),
        (b"=?utf-8?b?R3LDvMOfZQ?=", "Grüße"),
        (b"=?iso-8859-1?q?Gr=FC=DFe_an?= =?iso-8859-1?q?_alle?=", "Grüße an alle"),
        (b"=?utf-8?q?a?=\n =?utf-8?q?b?=", "ab"),
        (b"=?utf-8?q?a?= b =?utf-8?q?c?=", "a b c"),
        (b"=?utf-8?b?4pyJ4g==?= =?utf-8?b?nIk=?=", "\u2709\u2709"),  # one character in two words
        (b"=?utf-8*en?q?hi?=", "hi"),
        (b"=?iso-2022-jp?b?GyRCJDMbKEI=?=", "こ"),
        (b"=?utf-8?x?hi?=", "=?utf-8?x?hi?="),
        (b"=?utf-8?q?open", "=?utf-8?q?open"),
        ("Grüße".encode(), "Grüße"),
        ("Grüße".encode("latin-1"), "Grüße"),
        (b"a\tb", "a b"),
        (b"a\x1b[31mb", "a\ufffd[31mb"),
        (b"=?utf-8?q?a=0D=0ABcc:_x?=", "a\ufffd\ufffdBcc: x"),
        (b"", ""),
    ],
    ids=range(17),
)
def test_a_subject_is_decoded(field: bytes, subject: str) -> None:
    assert read(b"Subject: " + field + b"\n\nhi").subject == subject


def test_a_header_in_eight_bits_is_utf8_or_else_repaired() -> None:
    assert read("Subject: é\n\n".encode()).warnings == ()
    assert read(b"Subject: \xe9\n\n").warnings == ("charset_repaired",)


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_line_ends_do_not_matter(end: bytes) -> None:
    raw = plain("one\r\ntwo", subject="hi").replace(b"\r\n", end)

    assert (read(raw).subject, read(raw).text) == ("hi", "one\ntwo")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"\n", ""),
        (b"\r\n\r\nhi", "hi"),
        (b"Subject: x", ""),
        (b"Subject: x\n", ""),
        (b"just text", "just text"),
        (b"\x00\xff\xfe", "\ufffdÿþ"),
        (b"Subject: x\n\n", ""),
        (b"Content-Type: multipart/mixed; boundary=b\n\n", ""),
        (b"Content-Type: multipart/mixed; boundary=b\n\nno parts", ""),
        (b"Content-Type: multipart/mixed\n\nno boundary", "no boundary"),
        (b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nnever closed", "never closed"),
    ],
    ids=range(12),
)
def test_a_mail_without_much_in_it_is_a_mail(raw: bytes, text: str) -> None:
    parsed = read(raw)

    assert parsed.status is ParseStatus.PARSED
    assert parsed.text == text


@pytest.mark.parametrize(
    ("field", "is_automatic"),
    [
        ("auto-replied", True),
        ("auto-generated; x=y", True),
        ("no", False),
        ("", False),
    ],
)
def test_what_a_program_sent_by_itself_is_marked(field: str, *, is_automatic: bool) -> None:
    assert read(plain(auto_submitted=field)).auto_submitted is is_automatic


# texts


@pytest.mark.parametrize(
    ("charset", "data", "text", "warning"),
    [
        ("utf-8", "Grüße".encode(), "Grüße", None),
        ("", "Grüße".encode(), "Grüße", None),
        ("", "Grüße".encode("latin-1"), "Grüße", "charset_repaired"),
        ("us-ascii", "Grüße".encode(), "Grüße", "charset_repaired"),
        ("us-ascii", "Grüße".encode("latin-1"), "Grüße", "charset_repaired"),
        ("iso-8859-1", "Grüße".encode("latin-1"), "Grüße", None),
        ("iso-8859-1", "Grüße".encode(), "Grüße", "charset_repaired"),
        ("iso-8859-1", b"\x93x\x94 \x81", "“x” \x81".replace("“x”", "\x93x\x94"), None),
        ("windows-1252", b"\x93x\x94", "“x”", None),
        ("utf-8", "Grüße".encode("latin-1"), "Gr\ufffd\ufffde", "charset_repaired"),
        ("iso-2022-jp", "こんにちは".encode("iso-2022-jp"), "こんにちは", None),
        ("shift_jis", "こんにちは".encode("cp932"), "こんにちは", None),
        ("gb2312", "你好".encode("gbk"), "你好", None),
        ("big5", "你好".encode("big5"), "你好", None),
        ("euc-kr", "안녕".encode("euc-kr"), "안녕", None),
        ("koi8-r", "Привет".encode("koi8-r"), "Привет", None),
        ("WINDOWS-1251", "Привет".encode("cp1251"), "Привет", None),
        ("iso-2022-jp", "Grüße".encode(), "Grüße", "charset_repaired"),
        ("x-none", b"\xe9", "é", "charset_unknown"),
        ("utf-8", b"\xef\xbb\xbfhi\x00", "hi\ufffd", None),
    ],
    ids=range(20),
)
def test_text_is_decoded_by_its_charset_or_repaired(
    charset: str, data: bytes, text: str, warning: str | None
) -> None:
    kind = f"text/plain; charset={charset}" if charset else "text/plain"
    parsed = read(plain(data, content_type=kind))

    assert parsed.text == text
    assert parsed.warnings == ((warning,) if warning else ())


def test_html_may_name_its_own_charset() -> None:
    body = '<meta http-equiv="x" content="text/html; charset=koi8-r"><p>Привет'.encode("koi8-r")

    assert read(plain(body, content_type="text/html")).text == "Привет"


@pytest.mark.parametrize(
    ("encoding", "body", "text"),
    [
        ("quoted-printable", b"a=\r\nb =3D=e9", "ab =é"),
        ("QUOTED-PRINTABLE", b"a=3", "a=3"),
        ("base64", b"aGVs\r\nbG8=\r\n", "hello"),
        ("base64", b"aGVsbG8", "hello"),
        ("base64", b"aGVsbG8h!!!x", "hello!"),
        ("base64", b"a", ""),
        ("7bit", b"hello", "hello"),
        ("x-none", b"hello", "hello"),
    ],
)
def test_a_transfer_encoding_is_undone_as_far_as_it_goes(
    encoding: str, body: bytes, text: str
) -> None:
    assert read(plain(body, content_transfer_encoding=encoding)).text == text


def test_flowed_lines_are_joined_so_that_nothing_is_torn_apart() -> None:
    body = (
        "See https://example.com/verify? \r\ntoken=abc \r\nnow.\r\n"
        "> quoted \r\n> more\r\n-- \r\n  indented\r\n"
    )
    kept = read(plain(body, content_type="text/plain; format=flowed"))
    dropped = read(plain(body, content_type="text/plain; format=flowed; delsp=yes"))

    assert kept.text.startswith("See https://example.com/verify? token=abc now.\n> quoted more\n")
    assert dropped.text.startswith("See https://example.com/verify?token=abcnow.\n> quotedmore\n")
    assert kept.text.endswith("-- \n indented")


def test_texts_beside_each_other_are_all_shown() -> None:
    raw = (
        b"Content-Type: multipart/mixed; boundary=b\n\n"
        b"--b\nContent-Type: text/html\n\n<p>main</p>\n"
        b"--b\n\nfooter of a list\n"
        b"--b\nContent-Disposition: inline; filename=x.txt\n\nshown in place\n"
        b"--b\nContent-Disposition: attachment; filename=x.txt\n\nnot shown\n--b--\n"
    )
    parsed = read(raw)

    assert parsed.text == "main\nfooter of a list\nshown in place"
    assert parsed.text_from == "html"
    assert [each.name for each in parsed.attachments] == ["x.txt"]


def test_attachments_are_described() -> None:
    content = bytes(range(256))
    raw = (
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhi\n"
        b"--b\nContent-Type: IMAGE/PNG; name=a.png\nContent-ID: <c1@x>\n"
        b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(content) + b"\n"
        b"--b\nContent-Type: oddity\nContent-Disposition: attachment;\n"
        b" filename==?utf-8?q?=C3=BC?=\n\n"
        b"--b\nContent-Type: message/rfc822\n\nSubject: inner\n\ninner text\n--b--\n"
    )
    parsed = read(raw)
    first, second, third = parsed.attachments

    assert parsed.text == "hi"
    assert (first.number, first.name, first.media_type) == (1, "a.png", "image/png")
    assert (first.size, first.sha256) == (256, hashlib.sha256(content).hexdigest())
    assert (first.inline, first.content_id) == (True, "c1@x")
    assert (second.name, second.media_type, second.size, second.inline) == (
        "ü",
        "text/plain",
        0,
        False,
    )
    assert third.media_type == "message/rfc822"


# identity


def test_the_same_mail_on_another_road_is_the_same_message() -> None:
    one = plain("Hello  there,\r\nAnn", subject="A long subject", date=DATE)
    other = (
        b"Received: from a relay\r\nDKIM-Signature: v=1\r\n"
        b"From: =?utf-8?q?Ann?=\r\n <ann@EXAMPLE.com>\r\nMessage-ID: <1@example.com>\r\n"
        b"Subject: A long\r\n subject\r\nContent-Transfer-Encoding: quoted-printable\r\n"
        b"Date: " + DATE.encode() + b"\r\n\r\nHello there,=\r\n\r\nAnn\r\n"
    )

    assert read(one).identity == read(other).identity
    assert read(one).outline == read(other).outline
    assert len(read(one).identity) == 32


@pytest.mark.parametrize(
    "changed",
    [
        plain("Other", subject="s"),
        plain("Hello", subject="t"),
        plain("Hello", subject="s", message_id="<2@example.com>"),
        plain("Hello", subject="s", **{"from": "Eve <eve@example.com>"}),
    ],
    ids=["text", "subject", "message-id", "from"],
)
def test_a_mail_that_differs_in_what_counts_is_another_message(changed: bytes) -> None:
    assert read(changed).identity != read(plain("Hello", subject="s")).identity


def test_a_reused_message_id_is_seen_by_its_mark() -> None:
    one, other = read(plain("Hello")), read(plain("Other"))

    assert one.identity != other.identity
    assert one.message_mark == other.message_mark == hashlib.sha256(b"<1@example.com>").digest()


@pytest.mark.parametrize(
    "changed",
    [
        plain("Hello", to="x@example.org"),
        plain("Hello", cc="x@example.org"),
        plain("Hello", **{"from": "Anna <ann@example.com>"}),
        plain("Hello", date=DATE),
    ],
    ids=["to", "cc", "name", "date"],
)
def test_other_differences_only_flag_a_copy(changed: bytes) -> None:
    assert read(changed).identity == read(plain("Hello")).identity
    assert read(changed).outline != read(plain("Hello")).outline


def test_a_copy_whose_html_differs_is_flagged_too() -> None:
    one, other = alternative("Hi", "<p>Hi</p>"), alternative("Hi", "<p>Hi <b>there</b></p>")

    assert read(one).identity == read(other).identity
    assert read(one).outline != read(other).outline


def test_without_a_message_id_the_date_joins_and_without_both_the_delivery_decides() -> None:
    dated = read(plain(message_id="", date=DATE))
    later = read(plain(message_id="", date="Mon, 16 Nov 2026 04:00:01 +0000"))
    bare = read(plain(message_id="", date=""))

    assert dated.message_mark is None
    assert dated.identity != later.identity
    assert dated.identity == read(plain(message_id="", date=DATE)).identity
    assert bare.identity == b""


def test_ambiguous_senders_are_told_apart_by_their_fields() -> None:
    one = read(plain(**{"from": "a@b.example, c@d.example"}))
    other = read(plain(**{"from": "a@b.example, e@f.example"}))

    assert one.identity != other.identity


def test_hidden_text_does_not_count_for_the_identity() -> None:
    one = read(html("<p>Hello</p><i style='display:none'>a</i>"))
    other = read(html("<p>Hello</p><i style='display:none'>b</i>"))

    assert one.identity == other.identity


REPORT = b"""From: Mail Delivery System <mailer-daemon@shop.example>
Subject: Undelivered: your verification code is 481920
Content-Type: %s; boundary=x

--x
Content-Type: text/plain

Your verification code is 481920.
--x
Content-Type: message/delivery-status

Action: failed
--x--
"""


def test_a_report_about_another_mail_brings_no_code_of_that_mail() -> None:
    """A bounce or a receipt quotes what somebody else was sent."""
    mixed, report = (
        read((REPORT % kind).replace(b"\n", b"\r\n"))
        for kind in (b"multipart/mixed", b"Multipart/Report; report-type=delivery-status")
    )

    assert mixed.found.code is not None
    assert (report.found, report.text) == (Extraction(), mixed.text)
