"""Generate `oncebox.client.sync` from `oncebox.client.asynchronous`.

    python -m tools.sync_client        write the modules (`make sync-client`)

Every module is translated except ``runner``, which exists in both packages because tasks and
threads differ. Lines that end in ``# async only`` and paragraphs of docstrings that begin with
``Async only:`` are left out. A test compares the result with the committed modules.
"""

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "oncebox" / "client"
SOURCE, TARGET = CLIENT / "asynchronous", CLIENT / "sync"
HAND_WRITTEN = {"runner.py"}
_RUFF = Path(sys.executable).with_name("ruff")
_REPLACEMENTS = (
    (re.compile(r"\n\n``oncebox.client.sync`` is generated[^\"]*"), "\n"),
    (re.compile(r"^.*# async only\n", re.MULTILINE), ""),
    (re.compile(r"\n\n +Async only: [^\n]*(?:\n +[^\s\"][^\n]*)*"), ""),
    (re.compile(r"\basync (?=def|for|with)"), ""),
    (re.compile(r"\bawait "), ""),
    (re.compile(r"__a(enter|exit|iter|next)__"), r"__\1__"),
    (re.compile(r"\boncebox\.client\.asynchronous\b"), "oncebox.client.sync"),
    (re.compile(r"\bAsyncRunner\b"), "SyncRunner"),
    (re.compile(r"(?<!``)\bAsync(?=[A-Z])"), ""),
    (re.compile(r"of one event loop "), ""),
    (re.compile(r"\bnumber of tasks\b"), "number of threads"),
    (re.compile(r"the asyncio client"), "the blocking client"),
)


def generated() -> dict[Path, str]:
    """Return the text of every generated module by its path."""
    names = sorted(path.name for path in SOURCE.glob("*.py") if path.name not in HAND_WRITTEN)
    return {TARGET / name: translate(name) for name in names}


def translate(name: str) -> str:
    """Return a module of the sync package."""
    text = (SOURCE / name).read_text()
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    origin = (SOURCE / name).relative_to(CLIENT.parents[1])
    text = f"# Generated from {origin} by `make sync-client`; do not edit.\n{text}"
    text = _ruff(name, text, "check", "--fix-only", "--select", "I", "--quiet")
    return _ruff(name, text, "format")


def _ruff(name: str, text: str, *arguments: str) -> str:
    return subprocess.run(
        [_RUFF, *arguments, "--stdin-filename", TARGET / name, "-"],
        input=text,
        capture_output=True,
        check=True,
        text=True,
    ).stdout


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text)
