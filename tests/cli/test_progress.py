"""Long work shows how far it is, to whoever sits before a terminal and to nobody else."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.cli.ledger import Ledger

_MANY = 40


def typed(*arguments: str) -> tuple[str, str]:
    """Run a command; return its output, and what a terminal for its errors shows."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        [sys.executable, "-m", "oncebox", *arguments],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment,
        text=True,
    ) as process:
        os.close(theirs)
        assert process.stdout is not None
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # Linux says EIO when the other side has closed
            pass
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    return out, shown.decode()


def vectors() -> str:
    """Write many recorded requests."""
    each = {"id": "x", "scheme": "github", "provider": "github", "secret_or_key": "s"}
    path = Path("vectors.json")
    path.write_text("\n".join(json.dumps(each) for _ in range(_MANY)))
    return str(path)


def test_a_backup_shows_how_far_it_is(bare: Ledger) -> None:
    bare.accept("k")
    out, shown = typed("backup", "backup.tar", "--json")

    assert json.loads(out)["file"].endswith("backup.tar")
    assert "copying" in shown
    assert "packing" in shown


def test_many_things_are_counted_and_their_lines_stay_clean(bare: Ledger) -> None:
    out, shown = typed("hook", "verify", "--batch", vectors(), "--json")

    assert f"{_MANY}/{_MANY}" in shown
    assert len([json.loads(line) for line in out.splitlines()]) == _MANY


def test_quiet_and_few_and_no_terminal_show_nothing(bare: Ledger) -> None:
    bare.accept("k")
    _, quiet = typed("backup", "quiet.tar", "--quiet")
    answer = bare.type("backup", "piped.tar")
    batch = bare.type("hook", "verify", "--batch", vectors(), "--json")

    assert quiet == ""
    assert (answer.err, batch.err) == ("", "")
    assert len(batch.records) == _MANY
