"""How written pages are put together: tables, and the line that says who writes them."""

import ast
import inspect
from collections.abc import Iterable, Iterator, Sequence

WRITTEN = "This page is written by `python -m tests.docs.reference`; change the code instead."


def page(title: str, intro: str, body: str) -> str:
    """Return a whole page."""
    return f"# {title}\n\n{intro}\n\n{body}\n\n{WRITTEN}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; bars in its cells are kept from being borders."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines
    )


def plain(text: str) -> str:
    """Return words of the code as Markdown writes them."""
    return text.replace("``", "`")


def meanings(kind: type) -> Iterator[tuple[str, str]]:
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
    return plain(" ".join(reversed(found)))
