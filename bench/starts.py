"""Starts a command again and again, as it is installed from the wheel; prints starts a second.

Each `oncebox serve` has a data folder of its own that does not exist yet: what a newcomer feels.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from bench.environment import ROOT, installed
from tests.support.ports import free_port

TIMES = {"serve": 10, "uvicorn": 10, "help": 40, "python": 40}
WITHIN = 60.0
GLANCE = 0.001
APP = ("--app-dir", str(ROOT / "bench" / "peers"), "bare_start:app")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("what", choices=TIMES)
    options = parser.parse_args()
    folder, commands = Path(options.url.removeprefix("sqlite:///")).parent, installed()
    start: Callable[[int], float] = {
        "serve": lambda number: _serve(commands, folder / f"start{number}"),
        "uvicorn": lambda _number: _uvicorn(commands),
        "help": lambda _number: _run(str(commands / "oncebox"), "--help"),
        "python": lambda _number: _run(str(commands / "python"), "-c", "pass"),
    }[options.what]
    start(-1)  # brings the files into memory
    took = [start(number) for number in range(TIMES[options.what])]
    reading = {
        "rate": len(took) / sum(took),
        "setting": "a fresh folder each" if options.what == "serve" else "installed from the wheel",
        "p50": median(took) * 1000,
        "p99": quantiles(took, n=100, method="inclusive")[-1] * 1000,
    }
    print(json.dumps(reading))


def _run(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _serve(commands: Path, folder: Path) -> float:
    settings = {"ONCEBOX_DATA_DIR": str(folder), "ONCEBOX_SMTP__PORT": "0"}
    return _answered(
        [str(commands / "oncebox"), "serve", "--quiet", "--port"], "/healthz", settings
    )


def _uvicorn(commands: Path) -> float:
    """Start uvicorn as everybody does, with the loop and the parser that we use too."""
    quick = ("--loop", "uvloop", "--http", "httptools", "--log-level", "error")
    return _answered([str(commands / "uvicorn"), *APP, *quick, "--port"], "/", {})


def _answered(command: list[str], path: str, settings: dict[str, str]) -> float:
    """Return the seconds from the start of a server on a free port to its first 2xx."""
    port = free_port()
    began = time.perf_counter()
    with subprocess.Popen(
        [*command, str(port)], env={**os.environ, **settings}, stderr=subprocess.DEVNULL
    ) as server:
        try:
            while not _is_served(port, path):
                if server.poll() is not None or time.perf_counter() - began > WITHIN:
                    raise SystemExit(f"no answer from {' '.join(command)}")
                time.sleep(GLANCE)
            return time.perf_counter() - began
        finally:
            server.terminate()


def _is_served(port: int, path: str) -> bool:
    asked = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=WITHIN) as line:
            line.sendall(asked.encode())
            return line.recv(100).startswith(b"HTTP/1.1 2")
    except OSError:
        return False


if __name__ == "__main__":
    main()
