"""The keeper of a test run's service: ends it when nobody who uses it lives any more.

Whoever uses the service holds a shared lock on the file ``alive``. The system lets go of it when
a process ends, however it ends; so nothing is left running by a worker that crashed. It is
started by ``python -m oncebox.testing.keeper FOLDER`` and steps out of its parent's way.

Every run of pytest with xdist loads this page, so it imports nothing of ours.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

#: what lies in the folder of a run
ALIVE, STARTING, GREETING, LOG, PID, ENDED = (
    "alive",
    "starting",
    "greeting.json",
    "server.log",
    "server.pid",
    "ended",
)
#: seconds between two looks, and those a service has to end
_GLANCE, _STOPS_WITHIN = 0.1, 20.0
#: a run is over when it is over; nobody waits for requests to finish
_SETTINGS = {
    "ONCEBOX_SMTP__PORT": "0",
    "ONCEBOX_SMTP__STOP_WITHIN": "1",
    "ONCEBOX_HTTP__STOP_WITHIN": "1",
    "ONCEBOX_WORKER__STOP_WITHIN": "1",
    # Every test connects from this machine, and there may be many of them.
    "ONCEBOX_SMTP__CONNECTIONS_PER_ADDRESS": "0",
    # No name server knows the domains of tests.
    "ONCEBOX_MAIL__AUTHENTICATE": "false",
}


def new_folder() -> Path:
    """Return a folder for a run, which nobody else can read."""
    return Path(tempfile.mkdtemp(prefix="oncebox-"))


def hold(folder: Path) -> IO[bytes]:
    """Return what says, until it is closed, that the service of a run is still used."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (folder / ALIVE).open("ab")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def leave(folder: Path, held: IO[bytes]) -> None:
    """Let go of a service; where there never was one, nothing is left of its folder."""
    held.close()
    if not (folder / LOG).exists():
        shutil.rmtree(folder, ignore_errors=True)


def keep(folder: Path) -> None:
    """Start a service in test mode, and end it when the last one who uses it has gone."""
    (folder / GREETING).touch(mode=0o600)
    with (folder / GREETING).open("wb") as greeting, (folder / LOG).open("wb") as log:
        server = subprocess.Popen(  # noqa: S603 - our own program
            [
                *(sys.executable, "-m", "oncebox", "serve", "--test", "--json", "--port", "0"),
                *("--data-dir", str(folder / "data")),
            ],
            cwd=folder,
            env=_environ(),
            stdin=subprocess.DEVNULL,
            stdout=greeting,
            stderr=log,
        )
    try:
        _number(folder, server.pid)
        with (folder / ALIVE).open("rb") as alive:
            while _is_used(alive):
                if server.poll() is not None:
                    (folder / ENDED).touch()  # whoever waits for it need not wait longer
                time.sleep(_GLANCE)
    finally:  # also where the disk is full, or somebody wants us gone
        _end(server)
        shutil.rmtree(folder, ignore_errors=True)


def _number(folder: Path, pid: int) -> None:
    """Say which process it is, at once or not at all."""
    written = folder / f"{PID}.new"
    written.write_text(str(pid))
    written.replace(folder / PID)


def _environ() -> dict[str, str]:
    """Return an environment without anybody's own settings: a test must not reach real data."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith("ONCEBOX_")}
    return {**rest, **_SETTINGS}


def _is_used(alive: IO[bytes]) -> bool:
    try:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _end(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    try:
        server.wait(_STOPS_WITHIN)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # whoever started us need not wait for us
    os.setsid()  # nor do we hear its ^C
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    keep(Path(sys.argv[1]))
