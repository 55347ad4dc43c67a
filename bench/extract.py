"""The rows of extraction: a mail read and its code and link found, and how time grows with size."""

from __future__ import annotations

from bench.rows import Probe, Row

PART = "artifacts"


def rows() -> list[Row]:
    """Return every comparison of this part."""
    stdlib = Probe(
        "stdlib email, reads only", "sqlite", "bench.peers.stdlib_mail", ("--html",), ours=True
    )
    return [
        Row(PART, "extract-vs-stdlib-parse", _ours("parse and extract", "30"), (stdlib,)),
        Row(
            PART,
            "extract-1MiB-vs-512KiB",
            _ours("bytes of 1 MiB", "1024", "--bytes"),
            (_ours("bytes of 512 KiB", "512", "--bytes"),),
        ),
    ]


def _ours(name: str, size: str, *options: str) -> Probe:
    return Probe(name, "sqlite", "bench.our_extract", ("--kib", size, *options), ours=True)
