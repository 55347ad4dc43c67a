"""The pages for operators: their commands are typed as they stand, on both databases."""

import os
import re
import sys
from pathlib import Path

import pytest

from oncebox.cli import main
from tests.docs.page import Terminal, blocks
from tests.docs.reference import DOCS
from tests.project.tree import PACKAGE
from tests.support import postgres as programs
from tests.support.postgres import Postgres

PAGE = DOCS / "operating.md"
BACKUP = DOCS / "backup.md"
UPGRADING = DOCS / "upgrading.md"
#: how a finding of the doctor is called, wherever one is made
CHECK = re.compile(
    r"\b(?:Check|ok|warn|fail|_expect|_expect_none|_check_amount|_failed|_check_port)"
    r'\(\s*"([a-z _-]+)"'
)
RELAY = ("--kind", "smtp", "--host", "smtp.example.com")
MAIL = ("--from", "a@example.com", "--to", "b@example.com", "--text", "x", "--key", "k")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A home with a data folder, a transport and a mail that waits."""
    for name in [name for name in os.environ if name.startswith("ONCEBOX_")]:
        monkeypatch.delenv(name)
    home = {
        "HOME": str(tmp_path),
        "ONCEBOX_DATA_DIR": str(tmp_path / "data"),
        "ONCEBOX_HTTP__PORT": "0",
        "ONCEBOX_SMTP__PORT": "0",
    }
    for name, value in home.items():
        monkeypatch.setenv(name, value)
    return dict(os.environ) | {
        "PATH": os.pathsep.join((
            str(Path(sys.executable).parent), str(programs._installed_programs()),
            os.environ["PATH"],
        ))
    }  # fmt: skip


def prepare() -> None:
    assert main.run(["transport", "add", "relay", *RELAY]) == 0
    assert main.run(["send", "mail", *MAIL]) == 0


@pytest.mark.timeout(180)
def test_every_command_of_the_page_works_on_sqlite(
    environment: dict[str, str], tmp_path: Path
) -> None:
    prepare()
    pages = (*blocks(PAGE, "sh"), *blocks(BACKUP, "sh"), *blocks(UPGRADING, "sh"))
    typed = [each for each in pages if "pg_" not in each]
    with Terminal(environment, tmp_path) as terminal:
        printed = {each.splitlines()[-1]: terminal.type(each) for each in typed}
    resumed = next(text for line, text in printed.items() if "transport resume" in line)

    assert len(typed) == 12
    assert "ONCEBOX_DATA_DIR" in printed["oncebox config show"]
    assert "paused\trelay" in printed["oncebox restore backups/oncebox-*.tar --force"]
    assert "\tpending\t" in resumed
    assert "relay\tresumed\tsmtp" in resumed
    for path in (
        ".local/share/bash-completion/completions/oncebox", ".config/fish/completions/oncebox.fish",
        ".zfunc/_oncebox", "before-upgrade.tar",
    ):  # fmt: skip
        assert (tmp_path / path).stat().st_size > 0


@pytest.mark.timeout(180)
def test_every_command_of_the_page_works_on_postgresql(
    environment: dict[str, str],
    tmp_path: Path,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = postgres.create_database("operating")
    key = {"ONCEBOX_DATABASE_URL": url, "ONCEBOX_MASTER_KEY_FILE": str(tmp_path / "key")}
    (tmp_path / "key").write_text("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    for name, value in key.items():
        monkeypatch.setenv(name, value)
    assert main.run(["migrate"]) == 0
    prepare()
    dump, restore = (each for each in blocks(BACKUP, "sh") if "pg_" in each)
    with Terminal(environment | key, tmp_path) as terminal:
        terminal.type(dump)
        printed = terminal.type(restore)
    postgres.drop_database("operating")

    assert "paused\trelay" in printed
    assert "oncebox transport resume relay" in printed


def test_the_page_names_every_check_of_the_doctor() -> None:
    text = PAGE.read_text()
    source = "".join(path.read_text() for path in (PACKAGE / "cli" / "checks").glob("*.py"))
    names = set(CHECK.findall(source)) | {"dead deliveries", "held deliveries"}

    assert len(names) > 20
    assert {name for name in names if f"`{name}`" not in text} == set()
