"""A real PgBouncer in front of a server: its own configuration and port, ended for sure."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.support.debian import program
from tests.support.ports import free_port
from tests.support.postgres import Postgres

_READY_WITHIN = 30.0
_CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 20
max_client_conn = 200
"""


class PgBouncer:
    """A pooler in one of its modes; leaving the block ends it."""

    def __init__(self, server: Postgres, mode: str) -> None:
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="oncebox-pgbouncer-"))
        self._folder.chmod(0o755)
        self._configuration = self._folder / "pgbouncer.ini"
        # With this kind of authentication the user of the server is named for all.
        text = _CONFIGURATION.format(
            server=f"{server.port} user=postgres", port=self.port, mode=mode
        )
        self._configuration.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        """Return the URL of a database behind it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def __enter__(self) -> Self:
        words = [program("pgbouncer", "pgbouncer"), "-q"]
        words += ["-u", "nobody"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            [*words, str(self._configuration)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        give_up = time.monotonic() + _READY_WITHIN
        while not self._listens():
            assert self._process.poll() is None, "pgbouncer ended at start"
            assert time.monotonic() < give_up, "pgbouncer does not listen"
            time.sleep(0.02)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _listens(self) -> bool:
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self.port)) == 0
