"""Rules of chaos: what is written decides, and the same seed decides the same."""

from pathlib import Path

import pytest

from oncebox.errors import ConfigInvalid
from oncebox.model.inboxes.received_mail import Envelope, EnvelopeRecipient
from oncebox.testing import chaos
from oncebox.testing.chaos import FaultSchedule, MailRule, mail_rule


def envelope(to: str = "ada@shop.example", sender: str = "no-reply@acme.example") -> Envelope:
    recipient = EnvelopeRecipient(inbox_id="inb_1", tenant="t", address=to)
    return Envelope(client="127.0.0.1", helo="a", sender=sender, recipients=(recipient,))


def played(*rules: MailRule, seed: int = 0, mails: int = 40) -> list[str]:
    """Return what happens to one mail after another; nothing where all goes well."""
    script = FaultSchedule(rules, seed)
    struck = [script.next(lambda rule: rule.matches(envelope())) for _ in range(mails)]
    return ["" if each is None else each.fault for each in struck]


def test_the_same_seed_does_the_same_to_the_same_sequence() -> None:
    rules = (mail_rule("duplicate", chance=0.3), mail_rule("421", chance=0.3))

    first = played(*rules, seed=7)

    assert played(*rules, seed=7) == first
    assert played(*rules, seed=8) != first
    assert {"", "duplicate", "421"} == set(first)


def test_what_a_seed_does_is_the_same_in_every_version() -> None:
    """A seed in a bug report must still mean the same next year."""
    happened = played(mail_rule("delay", chance=0.25), seed=1, mails=16)

    assert [number for number, fault in enumerate(happened) if fault] == [5, 12, 13]


def test_a_rule_moves_no_dice_of_another() -> None:
    alone = played(mail_rule("delay", chance=0.5), seed=3)
    beside = played(mail_rule("delay", chance=0.5), mail_rule("421", to="*@nobody.example"), seed=3)

    assert beside == alone


@pytest.mark.parametrize(
    ("fields", "struck"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"times": 2}, [1, 2]),
        ({"after": 3}, [4, 5, 6, 7, 8]),
        ({"every": 3}, [3, 6]),
        ({"after": 1, "every": 2, "times": 2}, [3, 5]),
        ({"chance": 0}, []),
        ({"to": "ada@*"}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"to": "bob@*"}, []),
        ({"sender": "*@ACME.example"}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"sender": "*@other.example"}, []),
    ],
)
def test_a_rule_strikes_what_it_is_about_as_often_as_it_says(
    fields: dict[str, str | float], struck: list[int]
) -> None:
    happened = played(mail_rule("421", **fields), mails=8)

    assert [number for number, fault in enumerate(happened, 1) if fault] == struck


def test_of_several_rules_the_first_that_strikes_decides() -> None:
    assert played(mail_rule("421", every=2), mail_rule("delay"), mails=3) == [
        "delay", "421", "delay",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed = \n", "(at line 1, column 8)"),
        ("seed = 1\n", "there are no chaos rules in {path}; write at least one [[mail]]"),
        ("[[mail]]\nto = '*'\n", "mail rule 1: Object missing required field `fault`; faults of"),
        (
            "[[mail]]\nfault = '421'\n[[mail]]\nfault = 'explode'\n",
            (
                "mail rule 2, fault: Invalid enum value 'explode'; faults of mail are duplicate, "
                "delay, reorder, 421, drop_after_accept"
            ),
        ),
        (
            "[[webhook]]\nfault = 'reorder'\n",
            (
                "webhook rule 1, fault: Invalid enum value 'reorder'; faults of webhook are "
                "duplicate, delay, 503, drop_after_accept"
            ),
        ),
        ("[[mail]]\nfault = '421'\nchances = 1\n", "unknown field `chances`; a rule has fault,"),
        ("[[mail]]\nfault = '421'\nchance = 2\n", "mail rule 1, chance: Expected `float` <= 1"),
        (
            "[[mail]]\nfault = '421'\nseconds = 2\n",
            "mail rule 1: seconds says nothing about 421; it is for delay and reorder",
        ),
        ("[[mail]]\nfault = 'delay'\ncopies = 2\n", "copies says nothing about delay"),
        ("[[mails]]\nfault = '421'\n", "unknown field `mails`; a file has a seed, and rules"),
        ("seed = 'x'\n", "seed: Expected `int`, got `str`; a file has a seed"),
    ],
)
def test_a_bad_file_is_refused_by_line_or_key_with_what_helps(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)

    with pytest.raises(ConfigInvalid) as refused:
        chaos.read_rules(path)

    assert str(path) in str(refused.value)
    assert words.format(path=path) in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"nowhere\.toml cannot be read: No such file"):
        chaos.read_rules(tmp_path / "nowhere.toml")
