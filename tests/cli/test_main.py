"""How commands are found, how they fail, and what they cost to start."""

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

import oncebox
from oncebox.cli.main import GROUPS
from oncebox.cli.output.failures import exit_code
from oncebox.cli.output.times import ago, duration, iso_time
from oncebox.errors import NotFound, OnceboxError, StateConflict, StoreError
from tests.cli.ledger import Ledger

COMMANDS = [
    (*group.split(), name)
    for group, names in GROUPS.items()
    for name in names
    if f"{group} {name}".strip() not in GROUPS
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_and_takes_the_shared_options(
    bare: Ledger, command: tuple[str, ...]
) -> None:
    answer = bare.type(*command, "--help")

    assert answer.code == 0
    for option in ("--database", "--data-dir", "--json", "--quiet"):
        assert option in answer.out


def test_the_version_is_told(bare: Ledger) -> None:
    answer = bare.type("--version")

    assert answer.code == 0
    assert answer.out.startswith("oncebox 0.")


@pytest.mark.parametrize("arguments", [["no-such"], ["delivery", "no-such"], ["--no-such"]])
def test_an_unknown_command_is_misuse(bare: Ledger, arguments: list[str]) -> None:
    plain, as_json = bare.type(*arguments), bare.type(*arguments, "--json")

    assert (plain.code, as_json.code) == (2, 2)
    assert plain.err.startswith("error: usage: ")
    assert as_json.error["code"] == "usage"


@pytest.mark.parametrize("command", ["doctor", "delivery list", "backup x.tar", "restore x.tar"])
def test_who_may_not_look_is_told_to_be_another_user(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o000)
    powerless = []
    if os.geteuid() == 0:  # to root all is open, but for what the kernel can take from it
        if shutil.which("setpriv") is None:
            pytest.skip("root needs setpriv for this")
        powerless = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    typed = [sys.executable, "-m", "oncebox", *command.split(), "--data-dir", str(folder)]
    ended = subprocess.run(
        [*powerless, *typed], check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )

    assert ended.returncode == 1
    assert "run this as the user of the service" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_options_may_stand_before_the_command(bare: Ledger, tmp_path: Path) -> None:
    folder = str(tmp_path / "elsewhere")
    command = ("delivery", "accept", "shop", "--key", "k", "--body", "")
    before = bare.type("--json", "--data-dir", folder, *command)
    after = bare.type(*command, "--json", "--data-dir", folder)
    by_url = bare.type(*command, "--json", "--database", f"sqlite:///{folder}/oncebox.db")

    assert before.record["id"] == after.record["id"] == by_url.record["id"]
    assert not (tmp_path / "data").exists()


def test_a_folder_given_as_an_option_beats_a_database_in_the_environment(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")

    assert bare.type("migrate", "--data-dir", "here").code == 0
    assert Path("here/oncebox.db").exists()


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("ONCEBOX_WORKER__LEASE", "soon", "config_invalid"),
        ("ONCEBOX_DATABASE_URL", "mysql://x", "config_invalid"),
        ("ONCEBOX_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none", "database_unreachable"),
        ("ONCEBOX_MASTER_KEY", "short", "master_key_missing"),
    ],
)
def test_trouble_at_the_start_is_one_line(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch, name: str, value: str, code: str
) -> None:
    bare.type("migrate")
    monkeypatch.setenv(name, value)
    answer = bare.type("delivery", "accept", "shop", "--key", "k", "--body", "")

    assert answer.code == 1
    assert answer.err.startswith(f"error: {code}: ")
    assert answer.err.count("\n") == 1


def test_an_error_is_escaped_too(bare: Ledger) -> None:
    answer = bare.type("delivery", "list", "--data-dir", "\x1b[31mred")

    assert answer.code == 3
    assert "\\x1b[31mred" in answer.err


def test_the_program_ends_without_a_traceback_and_with_its_code(bare: Ledger) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "oncebox", "delivery", "list"], capture_output=True, check=False
    )

    assert ended.returncode == 3
    assert ended.stderr.startswith(b"error: not_found: ")


def test_a_reader_that_goes_away_is_no_failure_to_speak_of(bare: Ledger) -> None:
    bare.accept("k1")
    command = f"{sys.executable} -m oncebox delivery tail --for 1 --last 10 | head -c 1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, check=False)

    assert b"Traceback" not in ended.stderr


def test_help_adds_nothing_slow_to_the_package_itself(bare: Ledger) -> None:
    """The command line loads its commands, and with them the drivers, only when called."""
    code = """
import sys, types, pathlib
package = types.ModuleType("oncebox")
package.__path__ = [sys.argv[1]]
sys.modules["oncebox"] = package
from oncebox.cli.main import run
run(["delivery", "--help"])
slow = {"apsw", "psycopg", "rich", "asyncio", "msgspec", "structlog", "prometheus_client"}
print(sorted(slow & set(sys.modules)))
"""
    package = str(Path(oncebox.__file__).parent)
    ended = subprocess.run([sys.executable, "-c", code, package], capture_output=True, check=True)

    assert ended.stdout.decode().splitlines()[-1] == "[]"


def test_a_terminal_gets_a_table_in_which_stored_text_is_harmless(bare: Ledger) -> None:
    id_ = bare.accept("k\u202e[bold]1", "--type", "東京" * 100)
    shown = _on_a_terminal("delivery", "list")
    head, _, row = shown.partition(id_)
    lines = f"{id_}{row}".splitlines()

    assert "delivery" in head
    assert lines[0].startswith(f"{id_}  received  shop")
    assert "k\\u202e[bold]1" in row
    assert not set(row) & set("\u202e\x1b")
    assert max(map(cell_len, lines)) <= 80


def test_a_terminal_gets_sentences(bare: Ledger) -> None:
    command = ("delivery", "accept", "shop", "--key", "k", "--body", "")

    assert _on_a_terminal(*command).rstrip().endswith("  new")
    assert "duplicate: already received, nothing runs twice" in _on_a_terminal(*command)
    assert "next action" in _on_a_terminal("delivery", "inspect", "k")


def _on_a_terminal(*arguments: str) -> str:
    """Run a command whose standard output is a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "oncebox", *arguments],
        stdout=theirs,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"},
    )
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:  # Linux says EIO when the other side has closed
        pass
    os.close(ours)
    process.wait()
    return output.decode()


def test_every_error_has_an_exit_code_of_its_kind() -> None:
    assert [exit_code(each) for each in (OnceboxError, StoreError, NotFound, StateConflict)] == [
        1, 1, 3, 4,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(0, "0 ms"), (999, "999 ms"), (41_900, "41 s"), (119_000, "119 s"), (3_600_000, "60 min"),
     (7_200_000, "2 h"), (200_000_000, "2 d")],
)  # fmt: skip
def test_durations_are_said_in_one_unit(milliseconds: int, words: str) -> None:
    assert duration(milliseconds) == words


def test_times_are_said_as_they_are_read() -> None:
    assert iso_time(1_794_784_305_036) == "2026-11-15T23:11:45.036Z"
    assert ago(1_000, 42_000) == "41 s ago"
    assert ago(42_000, 1_000) == "in 41 s"


def test_help_lists_commands_in_sections(bare: Ledger) -> None:
    shown = bare.type("--help").out

    titles = [line for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == ["Options:", "Run:", "Inspect:", "Repair:", "Mail:", "Administration:"]


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        ("delivry", "oncebox delivery"),
        ("delivery inspct", "oncebox delivery inspect"),
        ("replay", "oncebox delivery replay, oncebox dead replay"),
        ("source secret ad", "oncebox source secret add"),
        ("version", "oncebox --version"),
        ("run", "oncebox serve"),
    ],
)
def test_mistyped_command_gets_a_suggestion(bare: Ledger, typed: str, suggested: str) -> None:
    answer = bare.type(*typed.split())

    assert answer.code == 2
    assert f"did you mean: {suggested}\n" in answer.err


def test_command_of_other_groups_does_not_get_an_opposite_as_suggestion(bare: Ledger) -> None:
    answer = bare.type("transport", "remove")

    assert answer.code == 2
    assert "did you mean" not in answer.err


def test_help_lists_every_command_with_its_line(bare: Ledger) -> None:
    for group, table in GROUPS.items():
        shown = bare.type(*group.split(), "--help").out
        assert all(f"  {name}" in shown and line in shown for name, line in table.items())
