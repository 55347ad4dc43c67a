"""The peers' own Python environment: made by uv from pinned requirements when first used."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "requirements" / "bench.txt"
FOLDER = ROOT / ".venv-bench"
UV = ROOT / ".boot" / "bin" / "uv"


def peers_python() -> Path:
    """Return the interpreter of the peers, with everything that is pinned for them."""
    python, stamp = FOLDER / "bin" / "python", FOLDER / ".pins"
    pinned = hashlib.sha256(PINS.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != pinned:
        print("making the environment of the peers …", flush=True)
        _uv("venv", "--clear", "--python", sys.executable, str(FOLDER))
        _uv("pip", "sync", "--python", str(python), "--require-hashes", str(PINS))
        stamp.write_text(pinned)
    return python


def _uv(*arguments: str) -> None:
    if not UV.exists():
        raise SystemExit("there is no uv: run `make setup` first")
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    subprocess.run([UV, "--quiet", *arguments], check=True, env=environment)
