"""Writes the pages and tables that come from the code: ``python -m tests.docs.reference``."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from prometheus_client.metrics import MetricWrapperBase

from oncebox import errors
from oncebox.cli.failures import exit_code
from oncebox.config import Settings
from oncebox.errors import OnceboxError
from oncebox.model.delivery import TRANSITIONS, State
from oncebox.telemetry import Telemetry
from tests.house.tree import ROOT

DOCS = ROOT / "docs"
_WRITTEN = "This page is written by `python -m tests.docs.reference`; change the code instead."
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """Return every page as it should be."""
    concepts = DOCS / "concepts.md"
    return {
        DOCS / "reference" / "errors.md": _errors(),
        DOCS / "reference" / "settings.md": _settings(),
        DOCS / "reference" / "metrics.md": _metrics(),
        concepts: _with_tables(concepts.read_text()),
    }


def main() -> None:
    """Write every page."""
    for path, text in pages().items():
        path.write_text(text)


def _with_tables(page: str) -> str:
    tables = {"states": _states, "transitions": _transitions}
    return _TABLE.sub(lambda found: f"{found[1]}{tables[found[2]]()}\n{found[3]}", page)


def _states() -> str:
    rows = [(f"`{name}`", meaning) for name, meaning in _meanings(State)]
    return _table(("state", "meaning"), ((name.lower(), meaning) for name, meaning in rows))


def _transitions() -> str:
    rows = ((f"`{before}`", f"`{after}`", why) for (before, after), why in TRANSITIONS.items())
    return _table(("from", "to", "when"), rows)


def _errors() -> str:
    rows = (
        (f"`{kind.code}`", "yes" if kind.retry_safe else "no", str(exit_code(kind)), _doc(kind))
        for kind in _below(OnceboxError)
    )
    return _page(
        "Errors",
        "Every error has a stable code.\n*Try again* says whether repeating the same call is safe "
        "and may help.\nThe exit code is what the `oncebox` command ends with.",
        _table(("code", "try again", "exit code", "meaning"), rows),
    )


def _settings() -> str:
    intro = (
        "A setting is taken from what the program passes, else from the environment, else from "
        "the file, else it has its default.\nThe file is `oncebox.toml` in the current folder, or "
        "the one named by `ONCEBOX_CONFIG`.\nTimes are in seconds."
    )
    rows = (
        (f"`{'.'.join(path)}`", f"`ONCEBOX_{'__'.join(path).upper()}`", default, meaning)
        for path, default, meaning in _fields(Settings)
    )
    return _page(
        "Settings", intro, _table(("in the file", "environment", "default", "meaning"), rows)
    )


def _metrics() -> str:
    rows = sorted(
        (
            f"`{each._name}{'_total' if each._type == 'counter' else ''}`",
            str(each._type),
            ", ".join(f"`{label}`" for label in each._labelnames),
            each._documentation,
        )
        for each in vars(Telemetry()).values()
        if isinstance(each, MetricWrapperBase)
    )
    return _page(
        "Metrics",
        "Each process has its own, in Prometheus's text form: `oncebox worker --metrics "
        "127.0.0.1:9464` serves them, and `box.metrics()` returns them.\nNo label holds a key, a "
        "body or anything else that a sender wrote.",
        _table(("name", "kind", "labels", "meaning"), rows),
    )


def _below(kind: type[OnceboxError]) -> Iterator[type[OnceboxError]]:
    """Yield a kind of error and all kinds of it, in the order they are written."""
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from _below(each)


def _doc(kind: type) -> str:
    return (inspect.getdoc(kind) or "").splitlines()[0]


def _fields(
    kind: type[msgspec.Struct], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    meanings = dict(_meanings(kind))
    for field in msgspec.structs.fields(kind):
        if isinstance(field.default, msgspec.Struct):
            yield from _fields(type(field.default), (*above, field.name))
        else:
            default = f"`{field.default}`" if field.default != "" else ""
            yield (*above, field.name), default, meanings[field.name]


def _meanings(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the names of a class's members and the ``#:`` lines above them."""
    lines = inspect.getsource(kind).splitlines()
    (body,) = ast.parse("\n".join(lines)).body
    assert isinstance(body, ast.ClassDef)
    for node in body.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign):
            (target,) = node.targets  # type: ignore[assignment]
        if isinstance(target, ast.Name):
            yield target.id, _comment_above(lines, node.lineno)


def _comment_above(lines: Sequence[str], number: int) -> str:
    found = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith("#: "):
            break
        found.append(line.strip().removeprefix("#: "))
    return " ".join(reversed(found)).replace("``", "`")


def _page(title: str, intro: str, table: str) -> str:
    return f"# {title}\n\n{intro}\n\n{table}\n\n{_WRITTEN}\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines
    )


if __name__ == "__main__":
    main()
