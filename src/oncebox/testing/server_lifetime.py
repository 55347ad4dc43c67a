"""Process that runs the test service and stops it when the last test process is gone.

Whoever uses the service holds a shared lock on the file ``alive``. The system lets go of it when
a process ends, however it ends; so nothing is left running by a worker that crashed. It is
started by ``python -m oncebox.testing.server_lifetime FOLDER`` and steps out of its parent's way.

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
ALIVE_LOCK, START_LOCK, CREDENTIALS, LOG_FILE, PID_FILE, ENDED_MARKER = (
    "alive",
    "starting",
    "greeting.json",
    "server.log",
    "server.pid",
    "ended",
)
#: seconds between two looks, and those a service has to end
_POLL_INTERVAL, _STOP_TIMEOUT = 0.1, 20.0
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


def hold_alive_lock(folder: Path) -> IO[bytes]:
    """Return what says, until it is closed, that the service of a run is still used."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (folder / ALIVE_LOCK).open("ab")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def release_alive_lock(folder: Path, held: IO[bytes]) -> None:
    """Let go of a service; where there never was one, nothing is left of its folder."""
    held.close()
    if not (folder / LOG_FILE).exists():
        shutil.rmtree(folder, ignore_errors=True)


def run_server(folder: Path) -> None:
    """Start a service in test mode, and end it when the last one who uses it has gone."""
    (folder / CREDENTIALS).touch(mode=0o600)
    with (folder / CREDENTIALS).open("wb") as greeting, (folder / LOG_FILE).open("wb") as log:
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
        _write_pid(folder, server.pid)
        with (folder / ALIVE_LOCK).open("rb") as alive:
            while _is_used(alive):
                if server.poll() is not None:
                    (folder / ENDED_MARKER).touch()  # whoever waits for it need not wait longer
                time.sleep(_POLL_INTERVAL)
    finally:  # also where the disk is full, or somebody wants us gone
        _stop_server(server)
        shutil.rmtree(folder, ignore_errors=True)


def _write_pid(folder: Path, pid: int) -> None:
    """Say which process it is, at once or not at all."""
    written = folder / f"{PID_FILE}.new"
    written.write_text(str(pid))
    written.replace(folder / PID_FILE)


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


def _stop_server(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    try:
        server.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # whoever started us need not wait for us
    os.setsid()  # nor do we hear its ^C
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    run_server(Path(sys.argv[1]))
