"""Python environments made by uv from pinned requirements: the peers', and that of our wheel."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "requirements" / "bench.txt"
FOLDER = ROOT / ".venv-bench"
UV = ROOT / ".boot" / "bin" / "uv"
WHEEL_PINS = ROOT / "requirements" / "run.txt"
WHEEL_FOLDER = ROOT / ".venv-wheel"


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


def installed() -> Path:
    """Return the folder of the commands of an environment with our wheel, as users have it."""
    python, stamp = WHEEL_FOLDER / "bin" / "python", WHEEL_FOLDER / ".made-of"
    made_of = _fingerprint()
    if not stamp.exists() or stamp.read_text() != made_of:
        _uv("venv", "--clear", "--python", sys.executable, str(WHEEL_FOLDER))
        # pip compiles what it installs; uv does when asked.
        options = ("--python", str(python), "--compile-bytecode")
        _uv("pip", "sync", *options, "--require-hashes", str(WHEEL_PINS))
        with tempfile.TemporaryDirectory() as folder:
            build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
            subprocess.run(build, check=True, cwd=ROOT, capture_output=True)
            (wheel,) = Path(folder).glob("*.whl")
            _uv("pip", "install", *options, "--no-deps", str(wheel))
        stamp.write_text(made_of)
    return WHEEL_FOLDER / "bin"


def _fingerprint() -> str:
    """Return what tells whether the wheel of now is another one."""
    package = (path for path in (ROOT / "src").rglob("*") if "__pycache__" not in path.parts)
    files = [WHEEL_PINS, ROOT / "pyproject.toml", *sorted(filter(Path.is_file, package))]
    texts = b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)
    return hashlib.sha256(texts).hexdigest()


def _uv(*arguments: str) -> None:
    if not UV.exists():
        raise SystemExit("there is no uv: run `make setup` first")
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    subprocess.run([UV, "--quiet", *arguments], check=True, env=environment)
