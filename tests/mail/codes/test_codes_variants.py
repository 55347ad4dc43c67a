"""Codes: digits apart, numbers that stay, order numbers, letters; in many languages."""

import random

import pytest

from tests.mail.code_pages import boxed, code, found, marked, plain
from tests.mail.samples.beside_code import CODE_MAILS, ORDER_SUBJECTS, STANDING_NUMBERS

every_language = pytest.mark.parametrize(
    "mail", CODE_MAILS, ids=[f"{mail[0]}" for mail in CODE_MAILS]
)
_OWN = "627428"


@every_language
def test_digits_apart_end_where_the_sentence_after_them_begins(mail: tuple[str, ...]) -> None:
    _, subject, before, after, _ = mail
    for gap in (" ", "\u00a0", " - ", " | "):
        shown = gap.join(_OWN)
        for between in ("\n\n", "\n"):
            text = f"{before}{between}{shown}{between}{after}"
            assert code(plain(text), subject=subject) == _OWN, gap
        assert code(plain(f"{before} {shown}\n{after}"), subject=subject) == _OWN, gap
        page = marked(f"<p>{before}</p><h1>{shown}</h1><p>{after}</p>")
        assert code(page, subject=subject) == _OWN, gap


@every_language
def test_digits_in_cells_end_where_the_sentence_after_them_begins(mail: tuple[str, ...]) -> None:
    _, subject, before, after, _ = mail
    for cell in ("<td>{}</td>", "<td style='font-size:28px'> {} </td>"):
        cells = "".join(cell.format(digit) for digit in _OWN)
        for rest in (f"</tr></table><p>{after}</p>", f"</tr><tr><td>{after}</td></tr></table>"):
            page = marked(f"<p>{before}</p><table><tr>{cells}{rest}")
            assert code(page, subject=subject) == _OWN, cell


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("El código es 6 2 7 4 2 8 y caduca en una hora.", "627428"),
        ("Il codice e 6 2 7 4 2 8 e scade tra un'ora.", "627428"),
        ("O código é 6 2 7 4 2 8 e expira em breve.", "627428"),
        ("Mã xác minh của bạn là 6 2 7 4 2 8 ạ.", "627428"),
        ("Your code is a 6 2 7 4 2 8 I sent.", "627428"),
        ("Kod: 6 2 7 4 2 8 i nic więcej.", "627428"),
        ("Verification code\nR 4 T X 9 K\nA minute is all you have.", "R4TX9K"),
        ("Verification code\n6 2 7 4 2 K\nI wish you a nice day.", "62742K"),
    ],
)
def test_a_word_of_one_letter_is_no_part_of_a_code(text: str, wanted: str) -> None:
    assert code(plain(text), subject="Code") == wanted


@pytest.mark.parametrize(("language", "name", "sentence"), STANDING_NUMBERS)
def test_a_number_that_stays_is_no_code(language: str, name: str, sentence: str) -> None:
    for value in ("402917", "KQ7P2M"):
        for text in (f"{name}: {value}", f"{name}\n\n{value}", sentence.format(value)):
            assert code(plain(text), subject=name) is None, (language, text)
            assert code(boxed(text), subject=name) is None, (language, text)


@pytest.mark.parametrize(("language", "name", "sentence"), STANDING_NUMBERS)
def test_a_code_is_found_beside_a_number_that_stays(
    language: str, name: str, sentence: str
) -> None:
    _, subject, before, after, _ = next(mail for mail in CODE_MAILS if mail[0] == language)
    for other in (f"{name}: 402917", sentence.format("402917")):
        for text in (
            f"{other}\n\n{before}\n\n{_OWN}\n\n{after}",
            f"{before}\n\n{_OWN}\n\n{after}\n\n{other}",
        ):
            assert code(plain(text), subject=subject) == _OWN, text
            assert code(boxed(text), subject=subject) == _OWN, text


@pytest.mark.parametrize(("language", "subject"), ORDER_SUBJECTS)
def test_the_number_of_an_order_in_the_subject_is_not_the_code(language: str, subject: str) -> None:
    _, _, before, after, _ = next(mail for mail in CODE_MAILS if mail[0] == language)
    subject = subject.format("402917")
    for text in (f"{before} {_OWN}\n\n{after}", f"{before}\n\n{_OWN}\n\n{after}\n\n402917"):
        assert code(plain(text), subject=subject) == _OWN, text
        assert code(boxed(text), subject=subject) == _OWN, text


def _letters(seed: int, alphabet: str, length: int) -> str:
    draw = random.Random(seed)
    return "".join(draw.choice(alphabet) for _ in range(length))


_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"


@every_language
def test_a_code_may_be_letters_alone(mail: tuple[str, ...]) -> None:
    _, subject, before, after, _ = mail
    kinds = ((_UPPER, 6), (_UPPER + _LOWER, 8), ("BCDFGHJKLMNPQRSTVWXZ", 8))
    for seed in range(6):
        value = _letters(seed, *kinds[seed % 3])
        page = marked(f"<p>{before}</p><h2>{value}</h2><p>{after}</p>")
        assert code(plain(f"{before}\n\n{value}\n\n{after}"), subject=subject) == value
        assert code(page, subject=subject) == value


@every_language
def test_a_code_may_be_a_long_hexadecimal_number(mail: tuple[str, ...]) -> None:
    _, subject, before, after, _ = mail
    for length in (20, 32, 40):
        value = _letters(length, "0123456789abcdef", length)
        page = marked(f"<p>{before}</p><p><b>{value}</b></p><p>{after}</p>")
        assert code(plain(f"{before}\n\n{value}\n\n{after}"), subject=subject) == value
        assert code(page, subject=subject) == value


@pytest.mark.parametrize(
    "text",
    [
        "Checksum\n\n9f86d081884c7d659a2feaa0c55ad015\n\nDownload it once more if it differs.",
        "Commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b was pushed to main.",
        "Request ID:\n\n9f86d081884c7d659a2feaa0c55ad015\n",
        "Your API key is:\n\n9f86d081884c7d659a2feaa0c55ad015\n\nKeep it secret.",
        "Transaction\n\n9f86d081884c7d659a2feaa0c55ad015a3bf4f1b\n\nconfirmed in block 4829137.",
    ],
)
def test_a_long_number_of_something_else_is_no_code(text: str) -> None:
    assert code(plain(text)) is None


@every_language
def test_words_alone_on_their_line_are_no_code(mail: tuple[str, ...]) -> None:
    _, subject, before, after, _ = mail
    for word in ("Harbour", "HARBOUR", "OpenBoat", "Lieferung", "Confirmar", "Tervetuloa", "GmbH"):
        text = f"{word}\n\n{before}\n\n{_OWN}\n\n{after}\n\n{word}\n"
        assert code(plain(text), subject=subject) == _OWN
        best = found(plain(f"{subject}\n\n{word}\n\n{after}"), subject=subject).best
        assert best is None, word


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("", "Enter 627428 to confirm."),
        ("Verify", "Your verification code:\n\n627428\n\n402918\n"),
        ("Code", "Your code is 627428. Meeting, conference, flight."),
        ("Code", "Your verification code is 627428 or 402918."),
        ("Harbour", "627428\n\nIt expires in 10 minutes. Do not share it.\n"),
    ],
)
def test_a_code_with_a_rival_or_evidence_against_it_is_not_certain(subject: str, text: str) -> None:
    for page in (plain(text), boxed(text)):
        assert all(each.confidence <= 0.9 for each in found(page, subject=subject).ranked)


@every_language
def test_a_code_that_is_called_one_is_certain(mail: tuple[str, ...]) -> None:
    _, subject, before, after, _ = mail
    best = found(plain(f"{before}\n\n{_OWN}\n\n{after}"), subject=subject).best

    assert best is not None
    assert best.confidence > 0.9
