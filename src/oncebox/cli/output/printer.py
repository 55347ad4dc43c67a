"""Standard output as JSON lines, tables or tab-separated cells; control characters escaped.

Escaped are the controls (C0, DEL, C1), the line separators, lone surrogates and everything
that Unicode calls ignorable: zero-width, bidirectional, variation, tag and filler characters.
A ``Block`` is shown as lines; in everything else a line end is escaped too.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

import click

_HIDDEN = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, fillers, marks
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero-width, separators, bidirectional
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"  # fillers, variation, annotation
    "\ud800-\udfff"  # lone surrogates
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # shorthand, music, tags
)
_IN_JSON = re.compile(f"[{_HIDDEN}]")
_IN_TEXT = re.compile(rf"[\\{_HIDDEN}]")
_ONE_BYTE, _TWO_BYTES = 0xFF, 0xFFFF


def escape(text: str) -> str:
    r"""Return text that is safe to print: ``\x1b``, ``\u202e``; a backslash is doubled."""
    return _IN_TEXT.sub(lambda match: _text_escape(match[0]), text)


class Block(str):
    """Text of several lines, which an outline shows line by line."""

    __slots__ = ()


def escape_lines(text: str) -> list[str]:
    """Return the lines of a text, each safe to print; a CR LF is one line end."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return [escape(line) for line in lines] if text else []


def to_json(value: object) -> str:
    r"""Return a value as one line of JSON in which hidden characters are ``\u`` escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return _IN_JSON.sub(lambda match: _json_escape(match[0]), text)


def _text_escape(character: str) -> str:
    if character == "\\":
        return "\\\\"
    number = ord(character)
    if number <= _ONE_BYTE:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= _TWO_BYTES else f"\\U{number:08x}"


def _json_escape(character: str) -> str:
    """Spell a character as JSON does: one or two UTF-16 units."""
    encoded = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[at : at + 2].hex()}" for at in range(0, len(encoded), 2))


T = TypeVar("T")
Cells = Sequence[object]

#: how wide the names of an outline are on a terminal
_NAME_WIDTH = 18


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints rows and records the way they were asked for."""

    as_json: bool
    quiet: bool

    @property
    def on_terminal(self) -> bool:
        """Whether a person is reading."""
        return sys.stdout.isatty()

    def record(self, value: object) -> None:
        """Print one JSON object."""
        from msgspec import to_builtins  # noqa: PLC0415 - help needs none

        click.echo(to_json(to_builtins(value)))

    def report(self, record: object, rows: Iterable[Cells], *, name: object | None = None) -> None:
        """Print a result: as a JSON record, as its name (if any) if quiet, else as an outline."""
        if self.as_json:
            self.record(record)
        elif not self.quiet:
            self.outline(rows)
        elif name is not None:
            self.line(name)

    def line(self, *cells: object) -> None:
        """Print one line."""
        between = "  " if self.on_terminal else "\t"
        click.echo(between.join(map(_text, cells)))

    def table(self, columns: Sequence[str], rows: Iterable[Cells]) -> None:
        """Print rows under their column names; to a pipe, without the names."""
        if self.on_terminal:
            from oncebox.cli.output.table import draw  # noqa: PLC0415 - rich is slow; pipes need none

            draw(columns, [[_text(cell) for cell in row] for row in rows])
            return
        for row in rows:
            self.line(*row)

    def outline(self, rows: Iterable[Cells]) -> None:
        """Print rows that each begin with a name; a ``Block`` is a row for each of its lines."""
        for name, *cells in rows:
            if cells and isinstance(cells[0], Block):
                for line in escape_lines(cells[0]):
                    self._named_row(_text(name), [line])
            else:
                self._named_row(_text(name), list(map(_text, cells)))

    def _named_row(self, name: str, texts: list[str]) -> None:
        if self.on_terminal:
            click.echo(f"{name:<{_NAME_WIDTH}}{'  '.join(texts)}".rstrip())
        else:
            click.echo("\t".join([name, *texts]))

    def listing(
        self,
        found: Iterable[T],
        columns: Sequence[str],
        row: Callable[[T], Cells],
        *,
        record: Callable[[T], object] = lambda each: each,
        name: Callable[[T], str] = attrgetter("id"),
    ) -> None:
        """Print a list: as JSON records, as names if quiet, else as a table."""
        if self.as_json:
            for each in found:
                self.record(record(each))
        elif self.quiet:
            for each in found:
                self.line(name(each))
        else:
            self.table(columns, map(row, found))

    def result(self, record: object, *cells: object, name: str | None = None) -> None:
        """Print a result: as a JSON record, as its name (if any) if quiet, else as a line."""
        if self.as_json:
            self.record(record)
        elif not self.quiet:
            self.line(*cells)
        elif name is not None:
            self.line(name)


def _text(cell: object) -> str:
    return escape("" if cell is None else str(cell))
