"""Many tests with an inbox each, in many workers of xdist, on one service that ends with them.

Every mail comes twice, some of them with faults besides. Each test must get its own code, the
first time; there is one service process for all workers, and none afterwards.
"""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.torture.checks import Violation
from tests.torture.processes import until
from tests.torture.scenario import Outcome, Plan

#: workers and tests of each: in the long form, and in the short one
_LONG, _SHORT = (16, 200), (4, 40)
_LONG_TRIALS = 5
#: seconds that a whole run may take, and the service after it to end
_WITHIN, _ENDS_WITHIN = 3_600.0, 60.0

PAGE = """
import smtplib

import pytest


def bring(server, to, code, trace=""):
    mail = (
        f"{trace}From: Acme <no-reply@acme.example>\\r\\nTo: {to}\\r\\nSubject: Your code\\r\\n"
        f"Message-ID: <{code}@acme.example>\\r\\n\\r\\nYour verification code is {code}.\\r\\n"
    )
    with smtplib.SMTP(server.smtp_host, server.smtp_port, timeout=60) as line:
        line.sendmail("no-reply@acme.example", to, mail.encode())


@pytest.mark.parametrize("number", range(TESTS))
def test_own_code(number, oncebox_server, inbox, mail_faults, tmp_path_factory):
    with open(f"servers/{oncebox_server.pid}", "w") as seen:
        seen.write(oncebox_server.url)
    code = str(100_000 + number)
    fault = FAULTS[number % len(FAULTS)]
    if fault:
        mail_faults.add(fault, times=1)
    for trace in ("", "", "Received: from relay.example\\r\\n"):
        try:
            bring(oncebox_server, inbox.email, code, trace)
        except smtplib.SMTPException:
            assert fault in ("421", "drop_after_accept"), "a fault of another test"
            bring(oncebox_server, inbox.email, code, trace)
    grant = inbox.wait_for_code(sender="acme.example", within=120)
    assert grant.value == code
    assert [each.fault for each in mail_faults.happened] == ([fault] if fault else [])


FAULTS = (None, "duplicate", None, "drop_after_accept", None, "421", None, "delay")
"""


def crowd(plan: Plan) -> Outcome:
    """Run so many times."""
    outcome = Outcome()
    workers, each = _LONG if plan.trials >= _LONG_TRIALS else _SHORT
    for trial in range(plan.trials):
        folder = plan.folder / str(trial)
        (folder / "servers").mkdir(parents=True)
        tests = workers * each
        (folder / "test_crowd.py").write_text(PAGE.replace("TESTS", str(tests)))
        said = _run(folder, workers)
        outcome.violations += [*_judged(folder, trial, tests, said), *_alive(folder, trial)]
        outcome.trials += 1
    outcome.note = f"{workers} workers, {workers * each} tests each time"
    return outcome


def _run(folder: Path, workers: int) -> str:
    rest = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST", "ONCEBOX"))
    }
    # Named, because those of other packages take seconds to load in each worker.
    plugins = ("-p", "xdist.plugin", "-p", "oncebox.testing.plugin", "-p", "no:cacheprovider")
    command = (sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--junitxml=told.xml")
    ran = subprocess.run(
        [*command, *plugins],
        cwd=folder,
        env={**rest, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=_WITHIN,
        check=False,
    )
    return ran.stdout + ran.stderr


def _judged(folder: Path, trial: int, tests: int, said: str) -> list[Violation]:
    """Return what went wrong in the tests themselves."""
    if not (folder / "told.xml").exists():
        return [Violation("crashed", f"run {trial}", said[-3_000:])]
    told = ET.parse(folder / "told.xml").getroot().find("testsuite")  # noqa: S314 - our own
    assert told is not None
    figures = {name: int(told.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    if figures == {"tests": tests, "failures": 0, "errors": 0, "skipped": 0}:
        return []
    return [Violation("flake", f"run {trial}", f"{figures}\n{said[-6_000:]}")]


def _alive(folder: Path, trial: int) -> list[Violation]:
    """Return services that there should not have been, or should no longer be."""
    pids = [int(each.name) for each in (folder / "servers").iterdir()]
    if len(pids) != 1:
        return [Violation("services", f"run {trial}", f"there were {len(pids)}: {pids}")]
    for _ in until(_ENDS_WITHIN):
        if not Path(f"/proc/{pids[0]}").exists():
            return []
    return [Violation("left", f"run {trial}", f"the service {pids[0]} lives on")]
