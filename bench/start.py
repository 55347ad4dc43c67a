"""The rows of starting: from the command to the first answer, and to the help text."""

from __future__ import annotations

from bench.rows import Probe, Row

PART = "start"


def rows() -> list[Row]:
    """Return every comparison of this part."""
    return [
        Row(
            PART,
            "serve-first-answer-vs-bare-uvicorn",
            _probe("oncebox serve", "serve"),
            (_probe("uvicorn with a bare ASGI app", "uvicorn"),),
        ),
        Row(
            PART,
            "cli-help-vs-python",
            _probe("oncebox --help", "help"),
            (_probe("python -c pass", "python"),),
        ),
    ]


def _probe(name: str, what: str) -> Probe:
    # Both sides run in the same environment, which the program makes.
    return Probe(name, "sqlite", "bench.starts", (what,), ours=True)
