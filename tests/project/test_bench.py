"""The programs of the bench run on the present schema, so that a measurement never fails first."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.databases import Place

ROOT = Path(__file__).parents[2]
SHORT = ("--seconds", "0.2")
PROGRAMS = {
    "accept": ("ours", "accept", *SHORT),
    "work": ("ours", "work", "--jobs", "100"),
    "grant": ("our_artifacts", "grant", "--artifacts", "50000", *SHORT),
    "send": ("our_sends", "send", *SHORT),
    "claim": ("our_sends", "claim", *SHORT),
    "duplicate": ("our_sends", "duplicate", *SHORT),
    "file mail": ("our_mail", "file", "--mails", "20", *SHORT),
    "list messages": ("our_mail", "list", "--messages", "500", *SHORT),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_measurement_runs_on_the_present_schema(place: Place, program: str) -> None:
    module, verb, *options = PROGRAMS[program]
    words = [sys.executable, "-m", f"bench.{module}"]
    named = options if module == "our_mail" else []
    words += [*named, place.url, verb, *([] if named else options)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1])["rate"] > 0
