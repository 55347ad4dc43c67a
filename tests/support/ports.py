"""Ports on which nobody listens."""

import contextlib
import random
import socket

# Below the range that outgoing connections use, so nothing takes the port during a restart.
_PORTS = range(15_000, 32_000)


def free_port() -> int:
    """Return a port that is free and stays so, unless another test draws the same."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as trial, contextlib.suppress(OSError):
            trial.bind(("127.0.0.1", port))
            return port
