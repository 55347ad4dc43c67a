"""Bombs and forgeries: each costs little, breaks nothing and is believed by nobody."""

import base64
import hashlib
import zlib
from collections.abc import Callable

import pytest

from oncebox.mail.auth.trust import is_reported_result
from oncebox.mail.parser import parse
from oncebox.model.inboxes.received_mail import ParsedMail, ParseStatus, SenderStatus
from tests.mail.mails import LIMITS, html, nested, plain, read
from tests.support.steps import steps

MIB = 1024 * 1024
#: lines of our code for a mail as such, and for each byte of it
LINES, PER_BYTE = 2_000, 40


@pytest.fixture(autouse=True, scope="module")
def _words_are_known() -> None:
    """The words of all languages are read once in each process; that is no mail's doing."""
    read(b"Content-Type: text/plain\n\none\n--x\nstill one\n")


def cheaply(raw: bytes, most: int | None = None) -> ParsedMail:
    """Read a mail, and see how many lines of our code that took.

    What an expression does in one line is not seen, but a bad one would not end with these.
    """
    found: list[ParsedMail] = []
    spent = steps(lambda: found.append(read(raw)))

    assert spent <= (LINES + PER_BYTE * len(raw) if most is None else most)
    return found[0]


# styles


_DEEP = "<div>" * 490 + "".join(f"<q id=x{number}></q>" for number in range(2000))


@pytest.mark.parametrize(
    "markup",
    [
        "<style>" + "b{color:red}" * 2000 + "</style>" + "<b>x</b>" * 2400,
        "<style>" + "*{color:red}" * 2000 + "</style>" + _DEEP,
        "<style>" + "i div div div div div div q{color:red}" * 40 + "</style>" + _DEEP,
        "<style>" + "* * * * * * * * * * * *{color:red}" * 200 + "</style>" + _DEEP,
        "<style>" + "a " * 120_000 + "{color:red}</style>" + _DEEP,
        "<style>" + "[a*=b]" * 40_000 + "{color:red}</style>" + _DEEP,
    ],
    ids=["tag", "everything", "ancestors", "wild", "long", "attributes"],
)
def test_no_style_sheet_costs_more_than_its_size(markup: str) -> None:
    """Rules times elements, and depth to the power of a selector's length, are the writer's."""
    cheaply(html(markup))


def test_many_parts_in_html_cost_no_more_than_a_few() -> None:
    page = "<style>" + "b{color:red}" * 30 + "</style>"
    page += "".join(f"<b id={number}>x" for number in range(100))
    part = f"--b\nContent-Type: text/html\n\n{page}\n".encode()
    head = b"Content-Type: multipart/mixed; boundary=b\n\n"
    parsed = cheaply(head + part * 190, most=2 * steps(lambda: read(head + part * 10)))

    assert parsed.status is ParseStatus.LIMITED
    assert parsed.warnings == ("html_limit",)


# parts


def test_four_hundred_thousand_parts_are_cut_off_at_once() -> None:
    head = b"Content-Type: multipart/mixed; boundary=b\n\n"
    parsed = cheaply(head + b"--b\n\n\n" * 400_000, most=100_000)

    assert parsed.status is ParseStatus.LIMITED
    assert parsed.warnings == ("parts_limit",)


def test_lines_that_begin_like_a_boundary_cost_nothing_more() -> None:
    head = b"Content-Type: multipart/mixed; boundary=b\n\n"
    cheaply(head + b"--bX\n" * 100_000)
    cheaply(head + b"--" * MIB, most=LINES)


def test_as_many_parts_as_allowed_are_all_read() -> None:
    part = b"--b\nContent-Disposition: attachment\n\nx\n"
    head = b"Content-Type: multipart/mixed; boundary=b\n\n"
    exactly, one_more = head + part * LIMITS.parts, head + part * (LIMITS.parts + 1)

    assert read(exactly + b"--b--\n").status is ParseStatus.PARSED
    assert len(read(exactly).attachments) == LIMITS.parts
    assert read(one_more).status is ParseStatus.LIMITED
    assert len(read(one_more).attachments) == LIMITS.parts


# depth


@pytest.mark.parametrize("depth", [200, 1_000, 20_000])
def test_multiparts_are_followed_only_so_deep(depth: int) -> None:
    parsed = cheaply(nested(depth))

    assert parsed.status is ParseStatus.LIMITED
    assert "parts_limit" in parsed.warnings


def test_a_text_within_the_depth_is_found() -> None:
    assert read(nested(LIMITS.depth)).text == "the text"
    assert read(nested(LIMITS.depth)).status is ParseStatus.PARSED
    assert read(nested(LIMITS.depth + 1)).status is ParseStatus.LIMITED


def test_a_mail_in_a_mail_in_a_mail_is_one_attachment() -> None:
    parsed = cheaply(b"Content-Type: message/rfc822\n\n" * 2_000, most=LINES)

    assert [each.media_type for each in parsed.attachments] == ["message/rfc822"]


# headers


@pytest.mark.parametrize(
    "raw",
    [
        b"To: " + b", ".join(b"user%d@example.com" % n for n in range(16_000)),
        b"Content-Type: text/plain; " + b"; ".join(b"a%05d=1" % n for n in range(8_000)),
        b"Subject: " + b" ".join([b"=?utf-8?q?a?="] * 8_000),
        b"\n".join(b"X-%d: y" % n for n in range(100_000)),
        b"\n".join(b"X-%d: " % n + b"y" * 60_000 for n in range(6)),
    ],
    ids=["addresses", "parameters", "encoded-words", "fields", "bytes"],
)
def test_a_header_over_its_limits_is_cut_before_it_is_read(raw: bytes) -> None:
    parsed = cheaply(b"From: a@b.example\n" + raw + b"\n\nbody", most=100_000)

    assert parsed.status is ParseStatus.LIMITED
    assert "header_limit" in parsed.warnings
    assert parsed.text == "body"
    # There may have been a second From in what was not read.
    assert parsed.sender.standing is SenderStatus.AMBIGUOUS


@pytest.mark.parametrize(
    "value",
    [
        b"Content-Type: " + b";" * 60_000,
        b'Content-Type: a/b; c="' + b"\\" * 60_000,
        b"Content-Type: a/b; " + b"".join(b"name*%d*=a;" % n for n in range(5_000)),
        b"Subject: " + b"=?" * 30_000,
        b"Subject: " + b"=?utf-8?q?" * 6_000,
        b"Subject: " + b"a\n " * 20_000,
        b"To: " + b"(" * 60_000,
        b"To: " + b'"a\\"' * 15_000,
        b"To: " + b"<" * 60_000,
        b"To: " + b"a@" * 30_000,
        b"To: " + b" " * 60_000 + b"a",
        b"From: " + b'a "b' * 400,
        b"DKIM-Signature: " + b" " * 60_000,
        b"Date: " + b"1 " * 30_000,
    ],
    ids=range(14),
)
def test_no_field_within_the_limits_is_slow(value: bytes) -> None:
    assert cheaply(value + b"\n\nbody").status is ParseStatus.PARSED


def test_addresses_are_kept_up_to_a_number() -> None:
    many = b"To: " + b", ".join(b"a%d@b.c" % n for n in range(3_000)) + b"\n\n"
    parsed = cheaply(many)

    assert len(parsed.to) == LIMITS.addresses
    assert "addresses_cut" in parsed.warnings


# content that grows


def test_attachments_are_hashed_and_never_unpacked() -> None:
    bomb = zlib.compress(bytes(50 * MIB))
    body = base64.encodebytes(bomb)
    raw = plain(body, content_type="application/zip", content_transfer_encoding="base64")
    parsed = cheaply(raw)

    (attached,) = parsed.attachments
    assert attached.size == len(bomb)
    assert attached.sha256 == hashlib.sha256(bomb).hexdigest()


def test_fifty_megabytes_of_base64_are_just_decoded() -> None:
    line = b"QUFB" * 19 + b"\n"
    raw = plain(line * (50 * MIB // len(line)), content_type="image/png",
                content_transfer_encoding="base64")  # fmt: skip

    assert cheaply(raw, most=LINES).attachments[0].size > 36 * MIB


# charsets


@pytest.mark.parametrize(
    "name",
    ["utf-7", "utf-16", "utf-32", "idna", "rot13", "punycode", "unicode_escape", "base64", "zlib",
     "hex", "uu", "bz2", "quopri", "mbcs", "oem", "undefined", "raw_unicode_escape", "x-unknown",
     "a" * 10_240, "../../x", "utf-8\x00", "\xff"],
    ids=lambda name: ascii(name[:20]),
)  # fmt: skip
def test_a_charset_that_is_none_is_read_as_latin_1_and_flagged(name: str) -> None:
    head = b"Content-Type: text/plain; charset=" + name.encode("latin-1")
    parsed = read(head + b"\n\ncaf\xe9 +AGE- \\u0041 =41")

    assert parsed.status is ParseStatus.PARSED
    assert parsed.text == "café +AGE- \\u0041 =41"
    assert "charset_unknown" in parsed.warnings


@pytest.mark.parametrize("name", ["utf-7", "zlib", "rot13", "unicode_escape", "idna"])
def test_the_same_holds_for_encoded_words(name: str) -> None:
    parsed = read(f"Subject: =?{name}?q?=41+AGE-?=\n\n".encode())

    assert parsed.subject == "A+AGE-"
    assert "charset_unknown" in parsed.warnings


# boundaries


@pytest.mark.parametrize(
    "boundary",
    ["", "b", "b" * 71, "b" * 4_096, "(a+)+$", ".*", "[", "\\d", "b b", "-", "--"],
    ids=range(11),
)
def test_a_boundary_is_only_itself(boundary: str) -> None:
    written = boundary.replace("\\", "\\\\")
    raw = (
        f'Content-Type: multipart/mixed; boundary="{written}"\n\n'
        f"before\n--{boundary}\n\none\n--{boundary}x\nstill one\n--{boundary}\n"
        f"Content-Disposition: attachment\n\ntwo\n--{boundary}--\nafter\n"
    ).encode()
    parsed = cheaply(raw)

    assert parsed.text == f"one\n--{boundary}x\nstill one"
    assert [each.size for each in parsed.attachments] == [3]


def test_a_boundary_that_begins_another_one_is_not_taken_for_it() -> None:
    raw = (
        b"Content-Type: multipart/mixed; boundary=aa\n\n--aa\n"
        b"Content-Type: multipart/alternative; boundary=aab\n\n"
        b"--aab\n\ninner\n--aab--\n--aa\n\nouter\n--aa--\n"
    )

    assert read(raw).text == "inner\nouter"


# names


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ('filename="../../x"', "../../x"),
        ('filename="C:\\\\x"', "C:\\x"),
        ('filename="a\x00b"', "a\ufffdb"),
        ('filename="a\r\n b"', "a b"),
        ('filename="=?utf-8?q?..=2F..=2Fx?="', "../../x"),
        ('filename="=?utf-8?q?a=0D=0Ab?="', "a\ufffd\ufffdb"),
        ("filename*0*=utf-8''..%2F; filename*1=..; filename*2*=%2Fx", "../../x"),
        ("filename*=utf-8''%E2%80%AEgpj.exe", "\u202egpj.exe"),
        ("filename=con", "con"),
        ("filename=.htaccess", ".htaccess"),
        (f"filename={'a' * 10_240}", "a" * 255),
    ],
    ids=range(11),
)
def test_a_name_is_data_and_nothing_else(written: str, name: str) -> None:
    raw = f"Content-Disposition: attachment; {written}\r\nContent-Type: a/b\r\n\r\nx".encode()
    (attached,) = read(raw).attachments

    assert attached.name == name
    assert attached.number == 1
    assert ("attachment_name_odd" in read(raw).warnings) == (name not in {"con", "a b"})


# ids


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        (b"<../../routes.js>", "<../../routes.js>"),
        (b"<a\r\n X: y>", "<aX:y>"),
        (b"<=?utf-8?q?a=0D=0AX=3A_y?=>", "<a\ufffd\ufffdX:y>"),
        (b"<" + b"a" * 60_000 + b">", "<" + "a" * 997),
        (b"", ""),
        (b"<>", ""),
    ],
    ids=range(6),
)
def test_a_message_id_is_recorded_and_is_no_key(field: bytes, kept: str) -> None:
    parsed = read(b"Message-ID: " + field + b"\r\n\r\nhello")

    assert parsed.message_id == kept
    assert bool(parsed.identity) == bool(kept)


def test_two_message_ids_are_flagged() -> None:
    parsed = read(b"Message-ID: <1@a>\nMessage-ID: <2@a>\n\n")

    assert parsed.message_id == "<1@a>"
    assert "message_id_repeated" in parsed.warnings


def test_a_content_id_is_bounded_text() -> None:
    raw = b"Content-Type: image/png\nContent-ID: <../../r.js\x00" + b"x" * 9_000 + b">\n\nx"
    (attached,) = read(raw).attachments

    assert attached.content_id.startswith("../../r.js\ufffdxxx")
    assert len(attached.content_id) == 255


# forged verdicts


def test_verdicts_that_a_mail_brings_along_are_marked() -> None:
    raw = plain(
        authentication_results="mx.oncebox.test; dmarc=pass header.from=bank.example",
        received_spf="pass",
        x_spam_status="No",
        dkim_signature="v=1; d=bank.example; s=k1; b=forged",
        x_google_dkim_signature="x",
        arc_authentication_results="i=1; x; dmarc=pass",
        list_id="<l.example>",
    )
    parsed = read(raw)

    assert "foreign_verdict" in parsed.warnings
    assert [(hint.domain, hint.selector) for hint in parsed.signatures] == [("bank.example", "k1")]


@pytest.mark.parametrize("name", ["from", "subject", "received", "list-unsubscribe", "x-mailer"])
def test_other_headers_are_no_verdicts(name: str) -> None:
    assert not is_reported_result(name)


def test_only_the_first_few_signatures_are_looked_at() -> None:
    one = b"DKIM-Signature: v=1; d=a%d.example;\r\n\ts=k; b=x\r\n"
    parsed = read(b"".join(one % number for number in range(50)) + b"\r\n")

    assert [hint.domain for hint in parsed.signatures] == [f"a{n}.example" for n in range(5)]
    assert read(b"DKIM-Signature: d=a b; s=../x\n\n").signatures == ()


# dates


@pytest.mark.parametrize(
    ("written", "date"),
    [
        ("Thu, 1 Jan 1970 00:00:00 +0000", 0),
        ("Tue, 1 Jan 2999 00:00:00 +0000", 32_472_144_000_000),
        ("Mon, 16 Nov 2026 05:00:00 +0100", 1_794_801_600_000),
        ("Mon, 16 Nov 2026 04:00:00 -0000", 1_794_801_600_000),
        ("yesterday", None),
        ("Mon, 99 Nov 2026 04:00:00 +0000", None),
        ("Mon, 16 Nov 2026 04:00:00 +999999999999", None),
        ("1" * 10_000, None),
        ("\x00", None),
    ],
    ids=range(9),
)
def test_a_date_is_only_what_a_mail_says(written: str, date: int | None) -> None:
    parsed = read(plain(date=written))

    assert parsed.date == date
    assert ("date_unreadable" in parsed.warnings) == (date is None)


# HTML


def _fill(unit: str, size: int = 2 * MIB) -> str:
    return unit * (size // len(unit))


@pytest.mark.parametrize(
    "make",
    [
        lambda: _fill("<div>"),
        lambda: _fill("<span>"),
        lambda: _fill("<ul><li>"),
        lambda: _fill("<p>"),
        lambda: _fill("<table><tr><td>"),
        lambda: "<a " + " ".join(f"a{n}=1" for n in range(200_000)) + ">x</a>",
        lambda: "".join(f"<b id={n}>" for n in range(50_000)) + "<p>x</p>" * 20_000,
        lambda: "<p>" + "".join(f"<b id={n}>" for n in range(600)) + "</p><p>x" * 600,
        lambda: _fill("<a href="),
        lambda: _fill("<"),
        lambda: _fill("&"),
        lambda: _fill("<!--"),
        lambda: "<!--" + "[if " * 300_000,
        lambda: "<style>" + _fill("@x{", MIB),
        lambda: "<style>" + _fill(".a b{display:none}", MIB) + "</style>" + "<a><b>x" * 400,
        lambda: "<p style='" + "(" * MIB + "'>x",
        lambda: "".join(f"<i style='color:#{n:06x}'>x" for n in range(60_000)),
    ],
    ids=range(17),
)
def test_no_html_is_slow(make: Callable[[], str]) -> None:
    cheaply(html(make()))


def test_reading_html_takes_steps_that_grow_with_its_size() -> None:
    def spent(paragraphs: int) -> int:
        raw = html("<p style='color:#123'>some <b>words</b> here</p>" * paragraphs)
        return steps(lambda: read(raw))

    spent(10)
    assert spent(2_000) <= 2.1 * spent(1_000)


def test_a_long_text_is_cut_and_the_rest_of_the_mail_is_read() -> None:
    parsed = cheaply(plain(b"word " * (5 * MIB), subject="long"), most=LINES)

    assert parsed.status is ParseStatus.LIMITED
    assert (parsed.subject, parsed.warnings) == ("long", ("extraction_limit", "text_limit"))
    cheaply(plain(b"a \n" * 100_000, content_type="text/plain; format=flowed"))


def test_codes_are_searched_in_a_bounded_text() -> None:
    """Of all parts together, however many there are."""
    filler = "word " * 40_000
    early, late = "Your verification code is 482915.", "Your verification code is 730164."
    found = parse(plain(f"{early}\n{filler * 2}\n{late}"))
    small = parse(plain(f"{early}\n{filler}"))

    assert [each.value for each in found.found.codes] == ["482915"]
    assert (found.status, found.warnings) == ("limited", ("extraction_limit",))
    assert (small.status, small.warnings) == ("parsed", ())
