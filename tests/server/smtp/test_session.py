"""The conversation, without a socket: every command, its order, its limits and its replies."""

import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncebox.server.smtp import smtp_replies
from oncebox.server.smtp.smtp_session import SLACK
from oncebox.settings import SmtpSettings
from tests.server.smtp.dialogue import LIMITS, World, codes, talk

FROM = "MAIL FROM:<ann@example.com>"
TO = "RCPT TO:<a@oncebox.test>"
MAIL = (FROM, TO, "DATA", "Subject: x", "", "body", ".")


def test_the_greeting_names_the_server_and_ehlo_what_it_offers() -> None:
    lines = World().hear([b"EHLO client.example\r\n"]).splitlines()

    assert lines == [
        "220 mx.oncebox.test ESMTP Oncebox",
        "250-mx.oncebox.test",
        "250-SIZE 2000",
        "250-PIPELINING",
        "250-8BITMIME",
        "250-SMTPUTF8",
        "250-STARTTLS",
        "250 ENHANCEDSTATUSCODES",
    ]


def test_without_a_certificate_tls_is_neither_offered_nor_given() -> None:
    world = World(starttls=False)
    transcript = world.hear([b"EHLO x\r\nSTARTTLS\r\n"])

    assert "250-STARTTLS" not in transcript
    assert codes(transcript)[-1] == 502


def test_helo_is_answered_in_one_line_and_takes_no_parameters() -> None:
    world = World()

    transcript = world.hear(
        [b"HELO x\r\nMAIL FROM:<a@b.example> SIZE=1\r\nMAIL FROM:<a@b.example>\r\n"]
    )
    assert codes(transcript) == [220, 250, 555, 250]


def test_a_mail_is_taken_with_its_envelope() -> None:
    answers, world = talk(*MAIL, "QUIT")
    ((envelope, body),) = world.mails

    assert answers == [250, 250, 354, 250, 221]
    assert body == b"Subject: x\r\n\r\nbody\r\n"
    assert (envelope.client, envelope.helo, envelope.sender, envelope.tls, envelope.utf8) == (
        "192.0.2.1", "client.example", "ann@example.com", "", False,
    )  # fmt: skip
    assert [to.address for to in envelope.recipients] == ["a@oncebox.test"]


def test_mails_follow_each_other_and_share_nothing() -> None:
    answers, world = talk(
        *MAIL,
        "MAIL FROM:<> BODY=8BITMIME SIZE=100 SMTPUTF8",
        "RCPT TO:<b@oncebox.test>",
        "DATA",
        ".",
    )

    assert answers == [250, 250, 354, 250, 250, 250, 354, 250]
    second, empty = world.mails[1]
    assert (second.sender, second.utf8, empty) == ("", True, b"")
    assert [to.address for to in second.recipients] == ["b@oncebox.test"]


@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        ((TO,), [503]),
        (("DATA",), [503]),
        ((FROM, FROM), [250, 503]),
        ((FROM, "DATA"), [250, 554]),
        ((FROM, "RCPT TO:<nobody@oncebox.test>", "DATA"), [250, 550, 554]),
        ((FROM, TO, "RSET", "DATA"), [250, 250, 250, 503]),
        ((FROM, TO, "EHLO again", TO), [250, 250, 250, 503]),
        ((FROM, TO, "HELO again", "DATA"), [250, 250, 250, 503]),
    ],
)
def test_commands_out_of_their_order_are_refused(
    lines: tuple[str, ...], answers: list[int]
) -> None:
    assert talk(*lines)[0] == answers


def test_nothing_is_taken_before_a_hello() -> None:
    assert codes(World().hear([b"MAIL FROM:<a@b.example>\r\nRCPT TO:<a@oncebox.test>\r\n"])) == [
        220,
        503,
        503,
    ]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("NOOP", 250), ("NOOP anything", 250), ("noop", 250), ("HELP", 214), ("VRFY a", 252),
        ("RSET", 250), ("RSET now", 501), ("QUIT now", 501), ("DATA now", 501), ("STARTTLS x", 501),
        ("EXPN list", 502), ("AUTH PLAIN AGEAYg==", 502), ("BDAT 0 LAST", 502), ("ETRN x", 502),
        ("XYZZY", 500), ("", 500), (" NOOP", 500), ("NOOP\tx", 500), ("N\x00OP", 500),
        ("\x1b[2J", 500), ("ÄÖÜ", 500), ("EHLO", 501), ("EHLO  ", 501), ("HELO a b", 501),
        ("EHLO \x7f", 500), ("MAIL", 501), ("MAIL TO:<a@b.example>", 501), ("MAIL FROM:", 501),
        ("RCPT FROM:<a@b.example>", 503),
    ],
)  # fmt: skip
def test_a_command_has_its_code(line: str, code: int) -> None:
    assert talk(line)[0] == [code]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("FROM:<>", 250), ("from:<A@B.Example>", 250), ("FROM: <a@b.example>", 250),
        ("FROM:<a@b.example> ", 250), ("FROM:<a@b.example> SIZE=2000", 250),
        ("FROM:<a@b.example> size=0 body=7bit", 250), ("FROM:<a@b.example> SIZE=2001", 552),
        ("FROM:<a@b.example> SIZE=99999999999999999999", 552),
        ("FROM:<a@b.example> SIZE=", 501), ("FROM:<a@b.example> SIZE", 501),
        ("FROM:<a@b.example> SIZE=-1", 501), ("FROM:<a@b.example> SIZE=1 SIZE=1", 501),
        ("FROM:<a@b.example> SMTPUTF8=1", 501), ("FROM:<a@b.example> BODY=BINARYMIME", 555),
        ("FROM:<a@b.example> BODY", 555), ("FROM:<a@b.example> RET=FULL", 555),
        ("FROM:<a@b.example> AUTH=<>", 501), ("FROM:a@b.example", 501), ("FROM:<a@b.example", 501),
        ("FROM:<a b@c.example>", 501), ("FROM:<<a@b.example>>", 501),
        ("FROM:<@r:a@b.example>", 501), ("FROM:<a@[127.0.0.1]>", 501),
        ('FROM:<"a b"@c.example>', 250), ("FROM:<ü@b.example>", 553),
        ("FROM:<ü@b.example> SMTPUTF8", 250), ("FROM:<a\u202e@b.example> SMTPUTF8", 501),
    ],
)  # fmt: skip
def test_a_sender_has_its_code(path: str, code: int) -> None:
    assert talk(f"MAIL {path}")[0] == [code]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("TO:<a@oncebox.test>", 250), ("to:<A+tag@OnceBox.TEST>", 250),
        ("TO: <b@oncebox.test>", 250),
        ("TO:<nobody@oncebox.test>", 550), ("TO:<a@elsewhere.example>", 550), ("TO:<>", 501),
        ("TO:<down@oncebox.test>", 451), ("TO:<a@oncebox.test> NOTIFY=NEVER", 555),
        ("TO:<../../etc/x@oncebox.test>", 501), ("TO:<@r1,@r2:a@oncebox.test>", 501),
        ("TO:<a%evil@oncebox.test>", 501), ("TO:<e!a@oncebox.test>", 501),
        (f"TO:<{'a' * 70}@oncebox.test>", 501), ("TO:<a@[127.0.0.1]>", 501), ("TO:<a>", 501),
        ('TO:<"a"@oncebox.test>', 501), ("TO:a@oncebox.test", 501), ("TO:<ü@oncebox.test>", 553),
    ],
)  # fmt: skip
def test_a_recipient_has_its_code(path: str, code: int) -> None:
    assert talk(FROM, f"RCPT {path}")[0] == [250, code]


def test_bytes_that_are_no_utf8_are_no_address() -> None:
    assert talk(b"MAIL FROM:<\xff@b.example> SMTPUTF8")[0] == [501]


def test_recipients_have_a_limit_and_the_first_ones_get_the_mail() -> None:
    to = [f"RCPT TO:<{name}@oncebox.test>" for name in "abcdaaaa"]
    answers, world = talk(FROM, *to, "DATA", "x", ".")

    assert answers == [250, 250, 250, 250, *[452] * 5, 354, 250]
    assert len(world.mails[0][0].recipients) == 3


def test_the_same_recipient_twice_is_one() -> None:
    answers, world = talk(FROM, TO, TO, TO, TO, "DATA", "x", ".")

    assert answers == [250, 250, 250, 250, 250, 354, 250]
    assert len(world.mails[0][0].recipients) == 1


def test_trouble_with_the_store_is_told_with_constant_words_and_may_pass() -> None:
    answers, world = talk(*MAIL, is_broken=True)

    assert answers == [250, 250, 354, 451]
    assert smtp_replies.TRY_LATER.decode() in world.transcript


# the mail itself


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"..\r\n", b".\r\n"),
        (b".x\r\n", b"x\r\n"),
        (b"...\r\n", b"..\r\n"),
        (b"a\r\n..\r\n\r\n..b\r\nc.\r\n", b"a\r\n.\r\n\r\n.b\r\nc.\r\n"),
        (b"", b""),
        (b"\r\n", b"\r\n"),
        (b"\r\n\x00.\r\n", b"\r\n\x00.\r\n"),
        (b"\x80\xff\x00\r\n", b"\x80\xff\x00\r\n"),
    ],
)
def test_dots_are_unstuffed_and_nothing_else_is_touched(sent: bytes, kept: bytes) -> None:
    answers, world = talk(FROM, TO, "DATA", sent + b".")

    assert answers == [250, 250, 354, 250]
    assert world.mails[0][1] == kept


@pytest.mark.parametrize("bare", [b"\n", b"\r", b"\r\r\n", b"\n\r", b"\n\n", b"\r\r"])
@pytest.mark.parametrize("around", [(b"a", b"b\r\n"), (b"", b"\r\n"), (b"a\r\n", b".\r\nb\r\n")])
def test_a_bare_line_end_in_a_mail_ends_the_conversation(
    bare: bytes, around: tuple[bytes, bytes]
) -> None:
    answers, world = talk(FROM, TO, "DATA", around[0] + bare + around[1] + b".", "NOOP")

    assert answers == [250, 250, 354, 550]
    assert world.is_over
    assert world.mails == []


def test_a_mail_at_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    line = b"x" * 98 + b"\r\n"
    at, over = line * 20, line * 19 + b"x" + line
    taken, world = talk(FROM, TO, "DATA", at + b".")
    refused, other = talk(FROM, TO, "DATA", over + b".", "NOOP")

    assert (taken[-1], len(world.mails[0][1])) == (250, LIMITS.size)
    assert (refused[-2:], other.mails) == ([552, 250], [])


def test_stuffed_dots_do_not_count() -> None:
    line = b".." + b"x" * 97 + b"\r\n"

    assert talk(FROM, TO, "DATA", line * 20 + b".")[0][-1] == 250


def test_a_mail_far_beyond_the_limit_ends_the_conversation() -> None:
    answers, world = talk(FROM, TO, "DATA", (b"x" * 98 + b"\r\n") * 700 + b".", "NOOP")

    assert LIMITS.size + SLACK < 70_000
    assert answers == [250, 250, 354, 552]
    assert world.is_over
    assert world.mails == []


@pytest.mark.parametrize(("size", "code"), [(1_500, 250), (1_501, 550)])
@pytest.mark.parametrize("before", [b"", b"y" * 100 + b"\r\n"])
def test_a_line_of_a_mail_has_a_limit(size: int, code: int, before: bytes) -> None:
    answers, _ = talk(FROM, TO, "DATA", before + b"x" * size + b"\r\n.", "NOOP")

    assert answers[-2:] == [code, 250]


# lines


def test_a_command_that_ends_with_a_bare_lf_is_refused_and_does_nothing() -> None:
    world = World()
    transcript = world.hear([b"EHLO x\nMAIL FROM:<a@b.example>\r\n"])

    assert codes(transcript) == [220, 500, 503]


@pytest.mark.parametrize(("size", "code"), [(118, 250), (119, 500), (1_400, 500)])
def test_a_command_has_a_length(size: int, code: int) -> None:
    assert talk("NOOP " + "x" * (size - 5), "NOOP")[0] == [code, 250]


def test_a_command_without_end_ends_the_conversation() -> None:
    answers, world = talk("NOOP " + "x" * 1_600)

    assert answers == [500]
    assert world.is_over


# who is no mail client


@pytest.mark.parametrize(
    "line",
    ["GET / HTTP/1.1", "POST / HTTP/1.1", "PROXY TCP4 198.51.100.1 192.0.2.1 1 25", "CONNECT x"],
)
def test_what_is_no_mail_client_is_let_go(line: str) -> None:
    answers, world = talk(line, *MAIL)

    assert answers == [500]
    assert world.is_over


def test_mistakes_end_the_conversation_and_a_mail_forgives_them() -> None:
    wrong = ["XYZZY"] * 4
    answers, world = talk(*wrong, *MAIL, *wrong, "XYZZY", "NOOP")

    assert answers == [500, 500, 500, 500, 250, 250, 354, 250, 500, 500, 500, 500, 500, 421]
    assert world.is_over


@pytest.mark.parametrize("line", ["NOOP", "RSET", "EHLO x", "HELO x", "VRFY a", "HELP"])
def test_everything_but_mail_ends_the_conversation_after_a_while(line: str) -> None:
    answers, world = talk(*[line] * 20)

    assert len(answers) == 8
    assert answers[-1] == 421
    assert world.is_over


def test_refused_recipients_end_the_conversation_after_a_while() -> None:
    answers, world = talk(FROM, *["RCPT TO:<guess@oncebox.test>"] * 20)

    assert answers == [250, *[550] * 7, 421]
    assert world.is_over


# STARTTLS


def test_after_starttls_everything_begins_anew() -> None:
    world = World()
    transcript = world.hear(
        [b"EHLO x\r\nMAIL FROM:<a@b.example>\r\n", b"STARTTLS\r\n", b"RCPT TO:<a@oncebox.test>\r\n"]
    )

    assert codes(transcript) == [220, 250, 250, 220, 503]


def test_what_is_slipped_in_behind_starttls_is_never_heard() -> None:
    world = World()
    world.hear(
        [b"EHLO x\r\nSTARTTLS\r\nMAIL FROM:<evil@x.example>\r\nRCPT TO:<a@oncebox.test>\r\n"]
    )
    transcript = world.hear([b"EHLO x\r\n", b"RCPT TO:<a@oncebox.test>\r\n"])

    assert codes(transcript) == [220, 250, 220, 250, 503]
    assert transcript.count("STARTTLS") == 1


def test_inside_tls_there_is_no_second_starttls() -> None:
    world = World()
    transcript = world.hear([b"EHLO x\r\nSTARTTLS\r\n", b"EHLO x\r\n", b"STARTTLS\r\n"])

    assert codes(transcript)[-1] == 503
    assert world.hear([b"MAIL FROM:<a@b.example>\r\nRCPT TO:<a@oncebox.test>\r\nDATA\r\n.\r\n"])
    assert world.mails[0][0].tls == "TLSv1.3"


# replies


def test_every_reply_is_one_line_with_an_enhanced_code_where_there_may_be_one() -> None:
    constants = {name: text for name, text in vars(smtp_replies).items() if name.isupper()}

    assert len(constants) > 30
    for text in constants.values():
        assert re.fullmatch(rb"[2345]\d\d (?:[245]\.\d\.\d )?[ -~]+\r\n", text)
        if text[:3] != b"354":
            assert text[4:5] == text[:1]


# any cut of the same bytes is the same conversation

_WORDS = st.sampled_from([
    b"EHLO x\r\n", b"HELO x\r\n", b"MAIL FROM:<a@b.example>\r\n", b"MAIL FROM:<> SIZE=10\r\n",
    b"RCPT TO:<a@oncebox.test>\r\n", b"RCPT TO:<b@oncebox.test>\r\n",
    b"RCPT TO:<down@oncebox.test>\r\n", b"RCPT TO:<no@oncebox.test>\r\n", b"DATA\r\n", b"RSET\r\n",
    b"NOOP\r\n", b"QUIT\r\n", b"XYZZY\r\n", b"NOOP\n", b"NOOP\r", b".\r\n", b"..\r\n", b".\n",
    b"\r\n", b"\r\n.\r\n", b"\r\n.\r\r\n", b"\n.\r\n", b"Subject: x\r\n", b"\x00\r\n", b".",
    b"\r", b"\n", b"x" * 130, b"x" * 700 + b"\r\n", b"\xff\r\n", b"AUTH PLAIN\r\n",
    b"AUTH LOGIN\r\n", b"AUTH LOGIN QQ==\r\n", b"AUTH PLAIN ", b"QQ==\r\n", b"*\r\n",
    b"QQBBAEE=\r\n",
])  # fmt: skip
_MAIL = st.lists(_WORDS, max_size=8).map(
    lambda words: (
        b"MAIL FROM:<a@b.example>\r\nRCPT TO:<a@oncebox.test>\r\nDATA\r\n"
        + b"".join(words)
        + b"\r\n.\r\n"
    )
)
_STREAM = st.lists(st.one_of(_WORDS, _MAIL), max_size=25).map(b"".join)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Draw a stream and one way to cut it."""
    stream = b"EHLO x\r\n" + draw(_STREAM)
    places = sorted(draw(st.sets(st.integers(0, len(stream)), max_size=40)))
    bounds = [0, *places, len(stream)]
    return stream, [stream[start:end] for start, end in pairwise(bounds)]


@given(cut_streams(), st.booleans())
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
def test_any_cut_of_the_same_bytes_is_the_same_conversation(
    given: tuple[bytes, list[bytes]],
    auth: bool,
) -> None:
    stream, chunks = given
    whole, cut, bytewise = World(auth=auth), World(auth=auth), World(auth=auth)

    assert whole.hear([stream]) == cut.hear(chunks)
    assert whole.hear([]) == bytewise.hear([bytes([each]) for each in stream])
    assert whole.mails == cut.mails == bytewise.mails
    assert whole.is_over == cut.is_over == bytewise.is_over


@given(st.binary(max_size=3_000), st.integers(1, 50))
@settings(max_examples=150)
def test_any_bytes_at_all_are_answered_without_a_stumble(noise: bytes, step: int) -> None:
    world = World(settings=SmtpSettings(size=1_000, line=1_000, command=64))
    chunks = [noise[place : place + step] for place in range(0, len(noise), step)]
    transcript = world.hear([b"EHLO x\r\n", *chunks])

    assert transcript.isascii()
    assert world.mails == []


def reference(stream: bytes) -> tuple[bytes, bytes] | None:
    """Read one mail line by line, as the standard says it; None if it must be refused."""
    kept: list[bytes] = []
    lines = re.split(rb"(?<=\r\n)", stream)
    for number, line in enumerate(lines):
        if line == b".\r\n":
            mail = b"".join(kept)
            bare = re.search(rb"\r(?!\n)|(?<!\r)\n", mail)
            return None if bare else (mail, b"".join(lines[number + 1 :]))
        kept.append(line.removeprefix(b"."))
    return None


@given(st.lists(st.sampled_from([b".", b"..", b"\r\n", b"x", b"\r", b"\n", b"\r\n.\r\n", b"ab"])))
@settings(max_examples=400)
def test_a_mail_is_read_as_a_plain_reader_would_line_by_line(words: list[bytes]) -> None:
    stream = b"".join(words) + b"\r\n.\r\n"
    world = World()
    world.hear(
        [b"EHLO x\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<a@oncebox.test>\r\nDATA\r\n", stream]
    )
    expected = reference(stream)

    assert [body for _, body in world.mails][:1] == ([expected[0]] if expected else [])
