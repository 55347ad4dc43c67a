"""Sources at the terminal: added, seen, changed and removed; their secrets never shown."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oncebox.cli.output.times import parse_duration
from oncebox.model.webhooks import source
from tests.cli.ledger import Ledger

CANARY = "whsec_CANARY"


def add(ledger: Ledger, name: str = "stripe", *options: str) -> Any:
    answer = ledger.type(
        "source", "add", name, "--scheme", "stripe", "--secret", "-", "--json", *options,
        stdin=f"{CANARY}\n".encode(),
    )  # fmt: skip
    assert answer.code == 0, answer.err
    return answer.record


def test_it_is_said_that_the_service_reads_a_variable_in_its_own_environment(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", CANARY)
    scheme = ("source", "add", "shop", "--scheme", "github")
    unset = bare.type(*scheme, "--secret", "env:UNSET_SECRET")
    second = bare.type("source", "secret", "add", "shop", "--secret", "env:UNSET_TOO")
    known = bare.type("source", "secret", "add", "shop", "--secret", "env:HOOK_SECRET")
    changed = bare.type("source", "set", "shop", "--rate", "5")

    assert [unset.code, second.code, known.code] == [0, 0, 0]
    where = "in its own environment: set it before oncebox serve, or give the secret with"
    assert unset.err == f"note: the service reads UNSET_SECRET {where} --secret -\n"
    assert second.err == f"note: the service reads UNSET_TOO {where} --secret -\n"
    assert known.err == changed.err == f"note: the service reads HOOK_SECRET {where} --secret -\n"
    assert "UNSET_SECRET is not set in the environment of this command" in unset.out


def test_a_missing_secret_beside_one_that_works_is_told_apart(bare: Ledger) -> None:
    scheme = ("source", "add", "shop", "--scheme", "github")
    unready = bare.type(*scheme, "--secret", "env:UNSET_SECRET")
    bare.type("source", "secret", "add", "shop", "--secret", "-", stdin=b"s3cret")
    changed = bare.type("source", "set", "shop", "--rate", "5")
    (trouble,) = show(bare, "shop")["troubles"]
    doctor = bare.type("doctor", "--json").records
    (told,) = [each for each in doctor if each["check"] == "source"]

    assert unready.rows[0][2] == "unready"
    assert changed.rows[0][2] == "ready"
    assert "its other secrets work" in changed.out
    assert f"oncebox source secret retire shop {trouble['secret']}" in trouble["message"]
    assert told["message"] == "shop is ready, but not all of its secrets are known"
    bare.type("source", "secret", "retire", "shop", trouble["secret"])
    assert show(bare, "shop")["troubles"] == []


def test_a_mistyped_scheme_gets_a_suggestion(bare: Ledger) -> None:
    answer = bare.type("source", "add", "shop", "--scheme", "strpe", "--json")

    assert answer.code == 1
    assert answer.error["message"] == (
        "there is no scheme 'strpe'; did you mean 'stripe'? list them with: oncebox hook schemes"
    )


def show(ledger: Ledger, name: str = "stripe") -> Any:
    return ledger.type("source", "show", name, "--json").record


def test_a_source_is_added_with_a_secret_from_standard_input(ledger: Ledger) -> None:
    record = add(ledger)

    assert (record["state"], record["path"], record["action"]) == ("ready", "/in/stripe", "added")
    (secret,) = show(ledger)["secrets"]
    assert secret["kept"] == "sealed"
    assert ledger.type("source", "list").rows == [
        ["stripe", "ready", "stripe", "/in/stripe", "database", ""]
    ]


def test_a_secret_is_asked_for_at_a_terminal_and_not_echoed(bare: Ledger) -> None:
    bare.type("migrate")
    ours, theirs = pty.openpty()
    command = ("source", "add", "x", "--scheme", "stripe", "--secret", "-")
    process = subprocess.Popen(
        [sys.executable, "-m", "oncebox", *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,  # or the terminal of whoever runs the tests would be asked
    )
    os.close(theirs)
    shown = _read(ours, until=b"secret: ")
    os.write(ours, f"{CANARY}\n".encode())
    shown += _read(ours)
    os.close(ours)

    assert process.wait() == 0
    assert b"ready" in shown
    assert CANARY.encode() not in shown
    assert show(bare, "x")["secrets"][0]["kept"] == "sealed"


def _read(terminal: int, until: bytes | None = None) -> bytes:
    """Read what a terminal shows, to its end or until some text."""
    shown = b""
    try:
        while until is None or until not in shown:
            chunk = os.read(terminal, 65536)
            if not chunk:
                break
            shown += chunk
    except OSError:  # Linux says EIO when the other side has closed
        pass
    return shown


def test_a_secret_on_the_command_line_is_refused_and_not_repeated(ledger: Ledger) -> None:
    added = ledger.type("source", "add", "x", "--scheme", "stripe", "--secret", CANARY)
    add(ledger)
    more = ledger.type("source", "secret", "add", "stripe", "--secret", CANARY, "--json")

    assert (added.code, more.code) == (2, 2)
    assert "CANARY" not in added.err + more.err
    assert "standard input" in added.err
    assert len(show(ledger)["secrets"]) == 1


def test_an_empty_secret_is_refused(ledger: Ledger) -> None:
    answer = ledger.type("source", "add", "x", "--scheme", "stripe", "--secret", "-", stdin=b"\n")

    assert answer.code == 1
    assert ledger.type("source", "list").out == ""


def test_standard_input_is_one_secret(ledger: Ledger) -> None:
    twice = ("--secret", "-", "--secret", "-")

    assert ledger.type("source", "add", "x", "--scheme", "stripe", *twice).code == 2
    binary = ledger.type("source", "add", "x", "--scheme", "stripe", "--secret", "-", stdin=b"\xff")
    assert (binary.code, "UTF-8" in binary.err) == (2, True)


def test_references_are_kept_and_judged_by_what_is_there(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--secret", "env:HOOK_SECRET", "--secret", "file:secret.txt")
    record = ledger.type("source", "add", "x", "--scheme", "stripe", "--json", *options).record
    codes = [each["code"] for each in record["troubles"]]
    assert (record["state"], codes) == ("unready", ["secret_unavailable"] * 2)
    line = ledger.type("source", "list").rows[0]
    assert line[1] == "unready"
    assert "HOOK_SECRET" in line[5]

    Path("secret.txt").write_text(f"{CANARY}\n")
    monkeypatch.setenv("HOOK_SECRET", CANARY)

    record = show(ledger, "x")
    assert (record["state"], record["troubles"]) == ("ready", [])
    assert {each["kept"] for each in record["secrets"]} == {
        "env:HOOK_SECRET",
        f"file:{Path.cwd()}/secret.txt",
    }


def test_a_source_without_a_secret_says_what_to_do(ledger: Ledger) -> None:
    answer = ledger.type("source", "add", "x", "--scheme", "stripe")

    assert answer.rows[0][:4] == ["x", "added", "unready", "/in/x"]
    assert "oncebox source secret add x" in answer.rows[0][4]


EVERY_OPTION = (
    "--option", "header=X-Sig", "--option", "window=600", "--option", 'topics=["a"]',
    "--public-url", "https://hooks.example.com/in/x", "--late", "run", "--replay", "drop",
    "--redelivery", "count", "--order-by", "$.id", "--sequence", "$.n", "--stale", "skip",
    "--gap-wait", "5min", "--after", "b=a", "--after", "c=b", "--after-wait", "2h",
    "--tries", "3", "--budget", "1d", "--first-wait", "0.5", "--longest-wait", "90s",
    "--rate", "5", "--concurrency", "2", "--retention", "30", "--mode", "pull",
    "--cidr", "10.0.0.0/8", "--cidr", "::/0", "--expect", "$.account=acct_1",
    "--allow-unsigned", "--inbound", "--inbox", "inb_1",
)  # fmt: skip
EVERY_FIELD = {
    "scheme": "stripe",
    "options": {"header": "X-Sig", "window": 600, "topics": ["a"]},
    "public_url": "https://hooks.example.com/in/x",
    "late": "run",
    "replay": "drop",
    "redelivery": "count",
    "order_by": "$.id",
    "sequence": "$.n",
    "stale": "skip",
    "gap_wait": 300,
    "after": {"b": "a", "c": "b"},
    "after_wait": 7200,
    "tries": 3,
    "budget": 86400,
    "first_wait": 0.5,
    "longest_wait": 90,
    "rate": 5,
    "concurrency": 2,
    "retention": 30,
    "mode": "pull",
    "cidrs": ["10.0.0.0/8", "::/0"],
    "expect": {"$.account": "acct_1"},
    "allow_unsigned": True,
    "inbound": True,
    "inbox": "inb_1",
}


def test_every_field_can_be_typed_when_adding_and_when_changing(ledger: Ledger) -> None:
    assert set(EVERY_FIELD) == set(source.SOURCE_FIELDS) - {"paused"}
    add(ledger, "x", *EVERY_OPTION)
    add(ledger, "y")
    ledger.type("source", "set", "y", *EVERY_OPTION)

    assert show(ledger, "x")["settings"] == show(ledger, "y")["settings"] == EVERY_FIELD
    outline = ledger.type("source", "show", "x").rows
    assert ["order_by", "$.id"] in outline
    assert ["expect", '{"$.account": "acct_1"}'] in outline


def test_a_field_is_changed_and_unset_and_the_others_stay(ledger: Ledger) -> None:
    add(ledger, "stripe", "--rate", "5", "--late", "run")

    changed = ledger.type("source", "set", "stripe", "--rate", "7", "--scheme", "github", "--json")
    assert changed.record["settings"] == {"scheme": "github", "rate": 7, "late": "run"}
    ledger.type("source", "set", "stripe", "--unset", "late")

    assert show(ledger)["settings"] == {"scheme": "github", "rate": 7}


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ([], 2, "--rate"),
        (["--rate", "many"], 2, "--rate"),
        (["--late", "maybe"], 2, "--late"),
        (["--after", "b"], 2, "TYPE=EARLIER"),
        (["--budget", "long"], 2, "90d"),
        (["--rate", "0"], 1, "rate"),
        (["--cidr", "x"], 1, "cidrs"),
        (["--order-by", "id"], 1, "order_by"),
        (["--unset", "scheme"], 1, "scheme"),
        (["--unset", "colour"], 1, "colour"),
        (["--scheme", "none"], 1, "allow_unsigned"),
    ],
)
def test_a_mistake_is_named_and_changes_nothing(
    ledger: Ledger, options: list[str], code: int, named: str
) -> None:
    add(ledger)
    answer = ledger.type("source", "set", "stripe", *options)

    assert answer.code == code
    assert named in answer.err
    assert show(ledger)["settings"] == {"scheme": "stripe"}


def test_a_source_rests_and_goes_on(ledger: Ledger) -> None:
    add(ledger)

    assert ledger.type("source", "pause", "stripe", "--why", "a flood").rows[0][1:3] == [
        "paused",
        "paused",
    ]
    assert ledger.type("source", "list", "--json").record["state"] == "paused"
    assert ledger.type("source", "resume", "stripe").rows[0][1:3] == ["resumed", "ready"]


def test_a_removed_source_is_gone(ledger: Ledger) -> None:
    add(ledger)

    assert ledger.type("source", "remove", "stripe", "--json").record == {
        "name": "stripe",
        "action": "removed",
    }
    assert ledger.type("source", "show", "stripe").code == 3
    assert ledger.type("source", "remove", "stripe").code == 3
    assert ledger.type("source", "list", "--quiet").out == ""


def test_a_name_or_address_that_is_taken_is_exit_code_4(ledger: Ledger) -> None:
    add(ledger)
    name = ledger.type("source", "add", "stripe", "--scheme", "stripe", "--json")
    address = ledger.type("source", "add", "x", "--scheme", "stripe", "--public-id", "stripe")

    assert (name.code, name.error["code"]) == (4, "state_conflict")
    assert address.code == 4
    assert "--public-id" in address.err


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("pause",),
        ("resume",),
        ("remove",),
        ("set", "--rate", "1"),
        ("secret", "list"),
        ("secret", "add", "--secret", "env:X"),
        ("secret", "retire", "sec_1"),
    ],
)
def test_missing_and_foreign_sources_look_the_same(
    ledger: Ledger, command: tuple[str, ...]
) -> None:
    ledger.type("tenant", "new", "acme")
    add(ledger, "theirs", "--tenant", "acme")
    place = 2 if command[0] == "secret" else 1
    before, after = command[:place], command[place:]

    foreign, missing = (
        ledger.type("source", *before, name, *after) for name in ("theirs", "missing")
    )

    assert foreign.code == missing.code == 3
    assert foreign.err == missing.err


def test_for_another_tenant_the_address_is_one_nobody_guesses(ledger: Ledger) -> None:
    ledger.type("tenant", "new", "acme")
    record = add(ledger, "stripe", "--tenant", "acme")

    assert record["path"] != "/in/stripe"
    assert len(record["public_id"]) == 26
    assert ledger.type("source", "list").out == ""
    assert ledger.type("source", "list", "--tenant", "acme", "--quiet").out == "stripe\n"


# secrets


def test_one_secret_follows_another(ledger: Ledger) -> None:
    add(ledger)
    (old,) = [each["id"] for each in show(ledger)["secrets"]]
    added = ledger.type("source", "secret", "add", "stripe", "--secret", "-", stdin=b"next")
    new = added.rows[0][0]

    assert [row[0] for row in ledger.type("source", "secret", "list", "stripe").rows] == [new, old]
    retired = ledger.type("source", "secret", "retire", "stripe", old, "--why", "rotated", "--json")
    assert (retired.code, retired.record["state"]) == (0, "ready")

    records = ledger.type("source", "secret", "list", "stripe", "--json").records
    assert [each["retired_at"] is None for each in records] == [True, False]
    assert ledger.type("source", "secret", "list", "stripe", "-q").out.split() == [new, old]
    last = ledger.type("source", "secret", "retire", "stripe", new)
    assert last.rows[0][1:3] == ["retired", "unready"]


def test_a_secret_may_be_retired_later(ledger: Ledger) -> None:
    add(ledger)
    (old,) = [each["id"] for each in show(ledger)["secrets"]]

    answer = ledger.type("source", "secret", "retire", "stripe", old, "--in", "24h")

    assert answer.rows[0][2] == "ready"
    (secret,) = show(ledger)["secrets"]
    assert secret["retired_at"] - secret["created_at"] >= 86_400_000


def test_an_unknown_secret_is_exit_code_3(ledger: Ledger) -> None:
    add(ledger)
    answer = ledger.type("source", "secret", "retire", "stripe", "sec_nothing")

    assert answer.code == 3
    assert "oncebox source secret list stripe" in answer.err


# the file


def test_a_source_of_the_file_is_shown_and_never_changed(ledger: Ledger) -> None:
    Path("oncebox.toml").write_text(
        f'[sources.shop]\nscheme = "stripe"\nsecrets = ["{CANARY}"]\nbudget = 60\n'
    )

    record = show(ledger, "shop")
    assert (record["origin"], record["state"], record["path"]) == ("file", "ready", "/in/shop")
    assert record["settings"] == {"scheme": "stripe", "budget": 60}
    assert record["secrets"][0] == {
        "id": "sec_file_1",
        "kept": "sealed",
        "created_at": None,
        "retired_at": None,
    }
    for command in (
        ["pause", "shop"],
        ["set", "shop", "--rate", "1"],
        ["remove", "shop"],
        ["add", "shop", "--scheme", "github"],
        ["secret", "add", "shop", "--secret", "env:X"],
        ["secret", "retire", "shop", "sec_file_1"],
    ):
        answer = ledger.type("source", *command)
        assert answer.code == 4
        assert "oncebox.toml" in answer.err


def test_mistake_in_the_file_is_named_by_commands_that_use_sources(ledger: Ledger) -> None:
    Path("oncebox.toml").write_text('[sources.shop]\nscheme = "stripe"\nrates = 5\n')

    for command in (("list",), ("show", "shop"), ("pause", "shop")):
        answer = ledger.type("source", *command)
        assert answer.code == 1
        assert "rates of source 'shop'" in answer.err


# the rest


def test_what_was_stored_cannot_steer_a_terminal(ledger: Ledger) -> None:
    add(ledger, "x", "--expect", "topic=a\u202eb", "--option", "prefix=\x1b[31m")

    for options in ([], ["--json"]):
        shown = ledger.type("source", "show", "x", *options).out
        assert "\u202e" not in shown
        assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("30", 30), ("0", 0), ("1.5", 1.5), ("90s", 90), ("5min", 300), ("12 h", 43_200),
     ("1d", 86_400)],
)  # fmt: skip
def test_durations_are_typed_with_or_without_a_unit(typed: str, meant: float) -> None:
    assert parse_duration(typed) == meant


def test_every_deed_of_the_office_is_audited_with_who_and_why(ledger: Ledger) -> None:
    add(ledger, "stripe", "--who", "ada", "--why", "the shop moved")
    ledger.type("source", "pause", "stripe", "--who", "eve", "--why", "a flood")

    assert ledger.audit("source:stripe") == [
        ("ada", "source add", "the shop moved"),
        ("eve", "source pause", "a flood"),
    ]
