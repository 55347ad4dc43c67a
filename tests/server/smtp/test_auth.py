"""AUTH of test mode, without a socket: any credentials, in the right form and order."""

from base64 import b64encode

import pytest

from oncebox.settings import SmtpSettings
from tests.server.smtp.dialogue import LIMITS, World, codes, talk

PLAIN = b64encode(b"\0ann\0hunter2").decode()
ANN, WORD = (b64encode(each).decode() for each in (b"ann", b"hunter2"))
FROM = "MAIL FROM:<ann@example.com>"
MAIL = (FROM, "RCPT TO:<a@oncebox.test>", "DATA", "Subject: x", "", "body", ".")


def test_auth_is_not_offered_outside_test_mode() -> None:
    world = World()
    transcript = world.hear([f"EHLO x\r\nAUTH PLAIN {PLAIN}\r\n".encode()])

    assert "AUTH" not in transcript
    assert codes(transcript)[-1] == 502
    assert talk(f"{FROM} AUTH=<>")[0] == [501]
    assert talk("AUTH PLAIN " + "A" * LIMITS.command)[0] == [500]


def test_test_mode_offers_plain_and_login() -> None:
    transcript = World(auth=True).hear([b"EHLO x\r\n"])

    assert "250-AUTH PLAIN LOGIN\r\n" in transcript


@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        ((f"AUTH PLAIN {PLAIN}",), [235]),
        ((f"auth plain {PLAIN}",), [235]),
        (("AUTH PLAIN", PLAIN), [334, 235]),
        (("AUTH PLAIN " + b64encode(b"admin\0ann\0x").decode(),), [235]),
        (("AUTH LOGIN", ANN, WORD), [334, 334, 235]),
        ((f"AUTH LOGIN {ANN}", WORD), [334, 235]),
        (("AUTH LOGIN =", ""), [334, 235]),
    ],
)
def test_any_credentials_in_the_right_form_log_in_and_mail_follows(
    lines: tuple[str, ...], answers: list[int]
) -> None:
    said, world = talk(*lines, *MAIL, auth=True)

    assert said == [*answers, 250, 250, 354, 250]
    assert len(world.mails) == 1


def test_login_asks_for_user_name_and_password_in_base64() -> None:
    world = World(auth=True)
    transcript = world.hear([f"EHLO x\r\nAUTH LOGIN\r\n{ANN}\r\n".encode()])

    assert transcript.splitlines()[-2:] == ["334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6"]


@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        (("AUTH PLAIN not-base64!",), [501]),
        (("AUTH PLAIN", "QQ"), [334, 501]),
        (("AUTH PLAIN", "QQ==QQ=="), [334, 501]),
        (("AUTH PLAIN =",), [501]),
        (("AUTH PLAIN " + b64encode(b"ann").decode(),), [501]),
        (("AUTH PLAIN " + b64encode(b"\0a\0b\0c").decode(),), [501]),
        ((f"AUTH PLAIN {PLAIN} {PLAIN}",), [501]),
        (("AUTH PLAIN", "*"), [334, 501]),
        (("AUTH LOGIN", "*"), [334, 501]),
        (("AUTH LOGIN", ANN, "*"), [334, 334, 501]),
        (("AUTH LOGIN", ANN, "p\xe4ss"), [334, 334, 501]),
        (("AUTH LOGIN", b"QQ\x00=="), [334, 500]),
        (("AUTH",), [504]),
        (("AUTH CRAM-MD5",), [504]),
        ((FROM, f"AUTH PLAIN {PLAIN}"), [250, 503]),
    ],
)
def test_a_wrong_answer_ends_auth_and_it_may_be_tried_again(
    lines: tuple[str | bytes, ...], answers: list[int]
) -> None:
    said, _ = talk(*lines, "RSET", "NOOP", f"AUTH PLAIN {PLAIN}", auth=True)

    assert said == [*answers, 250, 250, 235]


def test_auth_comes_after_ehlo_and_once() -> None:
    early = World(auth=True).hear([f"AUTH PLAIN {PLAIN}\r\n".encode()])
    helo = World(auth=True).hear([f"HELO x\r\nAUTH PLAIN {PLAIN}\r\n".encode()])
    twice, _ = talk(f"AUTH PLAIN {PLAIN}", f"AUTH PLAIN {PLAIN}", "EHLO x", "AUTH LOGIN", auth=True)

    assert codes(early)[-1] == codes(helo)[-1] == 503
    assert twice == [235, 503, 250, 503]


def test_what_was_said_before_tls_about_credentials_is_forgotten() -> None:
    said, _ = talk(f"AUTH PLAIN {PLAIN}", "STARTTLS", auth=True)
    world = World(auth=True)
    world.hear([f"EHLO x\r\nAUTH PLAIN {PLAIN}\r\nSTARTTLS\r\nAUTH LOGIN\r\n".encode()])
    after = world.hear([f"AUTH LOGIN\r\nEHLO x\r\nAUTH PLAIN {PLAIN}\r\n".encode()])

    assert said == [235, 220]
    assert codes(after)[-4:] == [220, 503, 250, 235]


LONG = SmtpSettings(command=120, line=20_000, errors=5, junk=8)


def test_a_long_token_fits_and_a_longer_one_is_refused() -> None:
    """RFC 4954: 12,288 bytes, for AUTH and its answers only."""
    fits = b64encode(b"\0ann\0" + b"x" * 9_000).decode()
    too_long = "A" * 12_288
    said, _ = talk(
        f"AUTH PLAIN {too_long}", "AUTH PLAIN", too_long, "NOOP", f"AUTH PLAIN {fits}",
        auth=True, settings=LONG,
    )  # fmt: skip

    assert said == [500, 334, 500, 250, 235]
    assert talk("NOOP " + "A" * 200, "EHLO " + "A" * 200, auth=True)[0] == [500, 500]


def test_the_middle_of_a_line_that_is_too_long_is_no_auth_line() -> None:
    world = World(auth=True, settings=LONG)
    before = world.hear([b"EHLO x\r\n", b"NOOP " + b"A" * 200])
    after = world.hear([f"AUTH PLAIN {PLAIN}\r\n".encode(), b"QUIT\r\n"])

    assert codes(before) == [220, 250]
    assert codes(after) == [220, 250, 500, 221]


def test_who_guesses_forms_for_ever_is_disconnected() -> None:
    said, world = talk(*["AUTH PLAIN !"] * 20, auth=True)

    assert said == [501] * LIMITS.errors + [421]
    assert world.is_over


def test_the_auth_parameter_of_a_mail_is_accepted_and_ignored() -> None:
    for value in ("<>", "ann@example.com", "e+3Dmc2@example.com"):
        assert talk(f"{FROM} SIZE=5 AUTH={value} BODY=7BIT", auth=True)[0] == [250]
    assert talk("MAIL FROM:<a AUTH=b> SIZE=1", auth=True)[0] == [501]
    assert talk(f"{FROM} AUTH=<> AUTH=<>", auth=True)[0] != [250]


def test_no_credentials_are_repeated_or_kept() -> None:
    _, world = talk(f"AUTH LOGIN {ANN}", WORD, *MAIL, f"AUTH PLAIN {PLAIN}", auth=True)
    ((envelope, body),) = world.mails

    for secret in (PLAIN, ANN, WORD, "hunter2"):
        assert secret not in world.transcript
        assert secret not in repr(envelope) + body.decode()
