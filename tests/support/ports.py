"""Ports on which nobody listens."""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

# Below the ports that outgoing connections use, so none takes the port during a restart.
_PORTS = range(10_000, 16_000)
_reserved: list[int] = []


def free_port() -> int:
    """Return a port that is free, and that no other test on this machine draws."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        if _reserve(port):
            with socket.socket() as trial, contextlib.suppress(OSError):
                trial.bind(("127.0.0.1", port))
                return port


def _reserve(port: int) -> bool:
    """Lock the file of a port until this process ends, and return whether nobody else does."""
    folder = Path(tempfile.gettempdir()) / "oncebox-test-ports"
    folder.mkdir(exist_ok=True)
    file = os.open(folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    _reserved.append(file)
    return True
