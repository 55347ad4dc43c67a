"""The stand-ins' store in a PostgreSQL table."""

import psycopg

from tests.torture.harness.store import TABLE, Unsure


class PostgresStore:
    """One table, reached anew after every broken connection."""

    def __init__(self, url: str, *, keyed: bool = True, synchronous: str = "on") -> None:
        self._url = url
        self._keyed = keyed
        self._synchronous = synchronous
        self._connection: psycopg.Connection | None = None

    def prepare(self) -> None:
        """Create the table; not part of what is tortured."""
        unique = "UNIQUE" if self._keyed else ""
        with psycopg.connect(self._url) as connection:
            connection.execute(  # the text is ours alone
                TABLE.format(serial="BIGSERIAL PRIMARY KEY", unique=unique).encode()
            )

    def write(self, key: str) -> str:
        try:
            return self._write(key)
        except psycopg.OperationalError as error:
            self.close()
            raise Unsure(str(error)) from error

    def rows(self) -> list[tuple[str, str]]:
        with psycopg.connect(self._url) as connection:
            return [(str(id_), key) for id_, key in connection.execute("SELECT * FROM row_")]

    def faults(self) -> list[str]:
        return []

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _write(self, key: str) -> str:
        connection = self._connected()
        with connection.transaction():
            connection.execute("INSERT INTO row_ (key) VALUES (%s) ON CONFLICT DO NOTHING", (key,))
            found = connection.execute("SELECT max(id) FROM row_ WHERE key = %s", (key,)).fetchone()
        assert found is not None
        return str(found[0])

    def _connected(self) -> psycopg.Connection:
        if self._connection is None:
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=5)
            self._connection.execute(
                "SELECT set_config('synchronous_commit', %s, false)", (self._synchronous,)
            )
        return self._connection
