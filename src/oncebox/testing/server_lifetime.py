"""Process that runs the test service and stops it when the last test process is gone.

Every user of the service holds a shared lock on the file ``alive``. The system releases it when
a process ends, also by a crash, so no service keeps running. The process is started by
``python -m oncebox.testing.server_lifetime FOLDER`` and detaches from its parent.

Every run of pytest with xdist loads this module, so it imports nothing else of Oncebox.
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

#: files in the folder of a run
ALIVE_LOCK = "alive"
START_LOCK = "starting"
GREETING = "greeting.json"
LOG_FILE = "server.log"
PID_FILE = "server.pid"
ENDED_MARKER = "ended"
#: seconds
_POLL_INTERVAL, _STOP_TIMEOUT = 0.1, 20.0
#: settings of the service; at the end of a run nothing waits for requests to finish
_SETTINGS = {
    "ONCEBOX_SMTP__PORT": "0",
    "ONCEBOX_SMTP__STOP_WITHIN": "1",
    "ONCEBOX_HTTP__STOP_WITHIN": "1",
    "ONCEBOX_WORKER__STOP_WITHIN": "1",
    # a test that waits for the same code again does so at once
    "ONCEBOX_WAITS__LEASE": "1",
    # Every test connects from this machine, and there may be many of them.
    "ONCEBOX_SMTP__CONNECTIONS_PER_ADDRESS": "0",
    # No name server knows the domains of tests.
    "ONCEBOX_MAIL__AUTHENTICATE": "false",
}


def new_folder() -> Path:
    """Return a new folder for a run, private to this user."""
    return Path(tempfile.mkdtemp(prefix="oncebox-"))


def hold_alive_lock(folder: Path) -> IO[bytes]:
    """Return a file that marks the service of a run as used until it is closed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (folder / ALIVE_LOCK).open("ab")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def release_alive_lock(folder: Path, held: IO[bytes]) -> None:
    """Release a service; remove the folder if no service was started."""
    held.close()
    if not (folder / LOG_FILE).exists():
        shutil.rmtree(folder, ignore_errors=True)


def run_server(folder: Path) -> None:
    """Run a service in test mode until its last user is gone."""
    (folder / GREETING).touch(mode=0o600)
    with (folder / GREETING).open("wb") as greeting, (folder / LOG_FILE).open("wb") as log:
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
        pid_file = folder / f"{PID_FILE}.new"
        pid_file.write_text(str(server.pid))
        pid_file.replace(folder / PID_FILE)
        with (folder / ALIVE_LOCK).open("rb") as alive:
            while _is_used(alive):
                if server.poll() is not None:
                    (folder / ENDED_MARKER).touch()  # ends the wait for its start
                time.sleep(_POLL_INTERVAL)
    finally:  # also if the disk is full, or this process is terminated
        server.terminate()
        try:
            server.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _environ() -> dict[str, str]:
    """Return an environment without the user's settings: a test must not reach real data."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith("ONCEBOX_")}
    return {**rest, **_SETTINGS}


def _is_used(alive: IO[bytes]) -> bool:
    try:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # the parent does not wait
    os.setsid()  # its ^C does not reach this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    run_server(Path(sys.argv[1]))
