"""Real shells complete what is typed, and what is not meant is not loaded for it."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

import oncebox
from tests.cli.ledger import Ledger
from tests.support.debian import program
from tests.torture.processes import until

#: where the command is that shells run
BIN = Path(sys.executable).parent


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb"}


@pytest.fixture
def script(bare: Ledger, request: pytest.FixtureRequest) -> Path:
    """The script for the shell that the test names."""
    path = Path("completion")
    path.write_text(bare.type("completion", request.param).out)
    return path.absolute()


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes_commands_and_options(script: Path) -> None:
    ask = """
source "$1"
for words in "oncebox deli" "oncebox delivery re" "oncebox config show --js"; do
    COMP_WORDS=($words) COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )) COMPREPLY=()
    _oncebox_completion oncebox
    echo "${COMPREPLY[@]}"
done
"""
    ended = subprocess.run(
        ["bash", "-c", ask, "bash", str(script)],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert ended.stdout.splitlines() == ["delivery", "replay release", "--json"]


@pytest.mark.parametrize("script", ["fish"], indirect=True)
def test_fish_completes_and_describes(script: Path) -> None:
    ended = subprocess.run(
        [program("fish", "fish"), "-c", f'source {script}; complete -C "oncebox delivery re"'],
        env={**environment(), "HOME": str(script.parent)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert ended.stdout.splitlines() == [
        "release\tLet a held delivery run.",
        "replay\tRun a done or dead delivery again.",
    ]


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh_completes_at_its_prompt(script: Path) -> None:
    """zsh completes only for who types, so somebody types."""
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        [program("zsh", "zsh"), "-f", "-i"],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**environment(), "HOME": str(script.parent), "PS1": "", "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    os.set_blocking(ours, False)
    try:
        os.write(
            ours, f"autoload -U compinit; compinit -D -u; source {script}; print rea''dy\n".encode()
        )
        _wait_for(ours, "ready")
        os.write(ours, b"oncebox delivery repl\t")
        said = _wait_for(ours, "replay")
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)

    assert "replay" in said


def _wait_for(terminal: int, word: str) -> str:
    said = ""
    for _ in until(60.0):
        try:
            said += os.read(terminal, 65536).decode(errors="replace")
        except BlockingIOError:
            time.sleep(0.01)
        if word in said:
            return said
    raise AssertionError(said)


def test_completion_imports_no_command_it_does_not_complete(bare: Ledger) -> None:
    asked = {
        "": set[str](),
        "deli": set[str](),
        "delivery re": set[str](),
        "source secret ": set[str](),
        "--da": set[str](),
        "hook schemes --j": {"oncebox.cli.commands.hook", "oncebox.cli.options"},
    }
    package = str(Path(oncebox.__file__).parent)
    words = list(asked)
    ended = subprocess.run(
        [sys.executable, "-c", _LOOK, package, *words],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = ended.stdout.splitlines()

    for text, line in zip(words, lines, strict=True):
        found, loaded = line.split("|")
        assert found, text
        commands = {each for each in loaded.split() if each in _COMMANDS}
        assert commands == asked[text], text
        if not asked[text]:
            assert not {"apsw", "rich", "asyncio", "oncebox.wiring"} & set(loaded.split())


#: what a command is typed for, by the module that has it
_CLI = Path(oncebox.__file__).parent / "cli"
_COMMANDS = {
    ".".join(("oncebox.cli", *path.relative_to(_CLI).with_suffix("").parts))
    for path in _CLI.rglob("*.py")
    if path.stem != "__init__"
} - {f"oncebox.cli.{name}" for name in (
    "context", "main", "output.failures", "output.printer", "output.progress",
)}  # fmt: skip
_LOOK = """
import sys, types
package = types.ModuleType("oncebox")
package.__path__ = [sys.argv[1]]
sys.modules["oncebox"] = package
from click.shell_completion import BashComplete
from oncebox.cli.main import root
for text in sys.argv[2:]:
    *words, last = text.split(" ")
    found = BashComplete(root, {}, "oncebox", "_ONCEBOX_COMPLETE").get_completions(words, last)
    loaded = [name for name in sys.modules]
    print(" ".join(item.value for item in found), "|", *loaded)
"""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(bare: Ledger, shell: str) -> None:
    plain, told = bare.type("completion", shell), bare.type("completion", shell, "--json").record

    assert plain.code == 0
    assert told == {"shell": shell, "script": plain.out}
    assert f"_ONCEBOX_COMPLETE={shell}_complete" in plain.out


def test_a_shell_that_nobody_knows_is_misuse(bare: Ledger) -> None:
    assert bare.type("completion", "tcsh").code == 2
