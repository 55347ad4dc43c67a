"""The stand-ins' store in an SQLite file."""

from pathlib import Path

import apsw

from tests.torture.harness.store import TABLE


class SqliteStore:
    """One file in WAL mode, flushed as ``synchronous`` says."""

    def __init__(self, path: Path, *, synchronous: str = "FULL") -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.set_busy_timeout(5_000)
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", synchronous)
        table = TABLE.format(serial="INTEGER PRIMARY KEY", unique="UNIQUE")
        self._connection.execute(table)

    def write(self, key: str) -> str:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO row_ (key) VALUES (?) ON CONFLICT DO NOTHING", (key,))
        found = self._connection.execute("SELECT id FROM row_ WHERE key = ?", (key,)).fetchall()
        self._connection.execute("COMMIT")
        return str(found[0][0])

    def rows(self) -> list[tuple[str, str]]:
        return [(str(id_), key) for id_, key in self._connection.execute("SELECT * FROM row_")]

    def faults(self) -> list[str]:
        answer = [str(row[0]) for row in self._connection.execute("PRAGMA integrity_check")]
        return [] if answer == ["ok"] else answer

    def close(self) -> None:
        self._connection.close()
