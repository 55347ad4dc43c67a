"""Named SQL queries: written once for SQLite, from which the PostgreSQL form is derived.

    -- name: renew
    -- bulk: id text, fence bigint
    -- Prolong the leases that are still ours.
    UPDATE … SET due_at = :until /* from rows */ WHERE id = :id AND fence = :fence …;

``/* postgres: … */`` is opened for PostgreSQL, ``/* sqlite: … */`` for SQLite. A bulk query runs
once per row on SQLite; on PostgreSQL it runs once over all rows, which come in at ``/* rows */``
(``unnest(…)``), ``/* from rows */`` (``FROM unnest(…)``) or ``/* and rows */`` (``, unnest(…)``);
``VALUES (…) /* from rows */`` becomes ``SELECT … FROM unnest(…)``, and on SQLite there are forms
of it that take several rows at once. Other bulk queries get such forms by ``-- spans: yes``;
their results may not name a column of a row. ``-- only: postgres`` and ``-- only: sqlite`` mark
what the other cannot do.
See docs/decisions/0004-use-sql-files-for-sqlite-and-postgresql.md.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

_POSTGRES_TEXT = re.compile(r"/\* postgres: (.*?) \*/", re.DOTALL)
_SQLITE_TEXT = re.compile(r"/\* sqlite: (.*?) \*/", re.DOTALL)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_VALUES_CLAUSE = re.compile(r"VALUES \((.*?)\)\s*/\* from rows \*/", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*")
#: how many rows the longer forms of a bulk insert take, the longest first
_ROWS_PER_STATEMENT = (64, 16, 4)


@dataclass(frozen=True, slots=True)
class Query:
    """One statement for both databases; only ``Queries`` makes them."""

    name: str
    sqlite: str
    postgres: bytes
    #: the parameters in the order of SQLite's numbers, those of the bulk line first
    parameters: tuple[str, ...]
    #: name and type of each column of a bulk query's rows
    bulk: tuple[tuple[str, str], ...]
    #: the only database that supports it, if there is only one
    only: str | None = None
    #: SQLite's forms for several rows, with how many each takes; the longest first
    spans: tuple[tuple[int, str], ...] = ()

    @property
    def shared(self) -> tuple[str, ...]:
        """The parameters that are the same for all rows."""
        return self.parameters[len(self.bulk) :]


class Queries:
    """The queries of a ``.sql`` file, as attributes; read when first used."""

    def __init__(self, package: str, page: str) -> None:
        self._location = (package, page)
        self._queries: dict[str, Query] | None = None

    @property
    def all(self) -> dict[str, Query]:
        """Every query by its name."""
        if self._queries is None:
            package, page = self._location
            text = files(package).joinpath(page).read_text("utf-8")
            blocks = re.split(r"^-- name: ", text, flags=re.MULTILINE)[1:]
            self._queries = {query.name: query for query in map(_parse_query, blocks)}
        return self._queries

    def __getattr__(self, name: str) -> Query:
        """Return the query of that name."""
        try:
            query = self.all[name]
        except KeyError:
            raise AttributeError(name) from None
        setattr(self, name, query)
        return query


def load(package: str, page: str) -> Queries:
    """Return the queries of a ``.sql`` file in a package."""
    return Queries(package, page)


@lru_cache(1024)
def insert_of_rows(query: Query, count: int) -> str:
    """Return SQLite's form of a bulk insert for so many rows, with the shared values in each.

    The parameters have no numbers: apsw keeps no statement of more than 16 KB prepared.
    """
    head, _, _ = query.sqlite.partition("VALUES")
    row = f"({','.join('?' * len(query.parameters))})"
    return f"{head}VALUES {','.join([row] * count)}"


def _parse_query(block: str) -> Query:
    name, _, text = block.partition("\n")
    bulk = _bulk_columns(text)
    body = _COMMENT.sub("", text).strip().rstrip(";")
    found = dict.fromkeys(_PARAMETER.findall(body))
    names = [column for column, _ in bulk]
    parameters = tuple(names + [each for each in found if each not in names])
    postgres = _to_postgres(body, bulk).encode()
    only = re.search(r"^-- only: (.*)$", text, re.MULTILINE)
    return Query(
        name=name.strip(),
        sqlite=_to_sqlite(body, parameters),
        postgres=postgres,
        parameters=parameters,
        bulk=bulk,
        only=only[1] if only else None,
        spans=tuple(
            _multi_row_forms(body, parameters, len(bulk), joined="\n-- spans: yes\n" in text)
        ),
    )


def _bulk_columns(text: str) -> tuple[tuple[str, str], ...]:
    line = re.search(r"^-- bulk: (.*)$", text, re.MULTILINE)
    if line is None:
        return ()
    pairs = (column.split() for column in line[1].split(","))
    return tuple((name, kind) for name, kind in pairs)


def _to_sqlite(body: str, parameters: tuple[str, ...]) -> str:
    body = re.sub(r"/\*.*?\*/", "", _SQLITE_TEXT.sub(r"\1", body), flags=re.DOTALL)
    return _PARAMETER.sub(lambda match: f"?{parameters.index(match[1]) + 1}", body)


def _multi_row_forms(
    body: str, parameters: tuple[str, ...], width: int, *, joined: bool
) -> Iterator[tuple[int, str]]:
    """Yield forms of a bulk query for several rows; shared parameters come after the rows."""
    values = _VALUES_CLAUSE.search(body)
    for count in _ROWS_PER_STATEMENT if values or joined else ():
        if values is None:
            yield count, _joined_rows(body, parameters, width, count)
            continue
        before, after = body[: values.start()], body[values.end() :]
        rows = (_values_row(values[1], parameters, width, number, count) for number in range(count))
        yield count, f"{_to_sqlite(before, ())}VALUES {', '.join(rows)}{_to_sqlite(after, ())}"


def _joined_rows(body: str, parameters: tuple[str, ...], width: int, count: int) -> str:
    """Return a query that joins its rows as a ``VALUES`` table."""

    def named(match: re.Match[str]) -> str:
        place = parameters.index(match[1])
        return f"rows.column{place + 1}" if place < width else f"?{place + (count - 1) * width + 1}"

    body = _PARAMETER.sub(named, body)
    each = (range(number * width + 1, (number + 1) * width + 1) for number in range(count))
    values = ", ".join(f"({', '.join(f'?{place}' for place in places)})" for places in each)
    for mark, word in (("from rows", "FROM"), ("and rows", ",")):
        body = body.replace(f"/* {mark} */", f"{word} (VALUES {values}) AS rows")
    return re.sub(r"/\*.*?\*/", "", _SQLITE_TEXT.sub(r"\1", body), flags=re.DOTALL)


def _values_row(row: str, parameters: tuple[str, ...], width: int, number: int, count: int) -> str:
    def numbered(match: re.Match[str]) -> str:
        place = parameters.index(match[1])
        offset = number * width if place < width else (count - 1) * width
        return f"?{place + offset + 1}"

    return f"({_PARAMETER.sub(numbered, row)})"


def _to_postgres(body: str, bulk: tuple[tuple[str, str], ...]) -> str:
    body = _POSTGRES_TEXT.sub(r"\1", body.replace("%", "%%"))
    body = _VALUES_CLAUSE.sub(r"SELECT \1 /* from rows */", body)
    columns = {name for name, _ in bulk}
    body = _PARAMETER.sub(
        lambda match: f"p_{match[1]}" if match[1] in columns else f"%({match[1]})s", body
    )
    arrays = ", ".join(f"%({name})b::{kind}[]" for name, kind in bulk)
    rows = f"unnest({arrays}) AS rows ({', '.join(f'p_{name}' for name, _ in bulk)})"
    for mark, text in (("from rows", f"FROM {rows}"), ("and rows", f", {rows}"), ("rows", rows)):
        body = body.replace(f"/* {mark} */", text)
    return body
