"""The plugin as its users meet it: real runs of pytest, with xdist and without."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from oncebox.testing import fixtures
from oncebox.testing.shared_server import OnceboxServer
from tests.support.databases import fresh_sqlite
from tests.support.running import running
from tests.torture.processes import until

SEND = """
import smtplib

def send(server, to, code):
    mail = (
        f"From: Acme <no-reply@acme.example>\\r\\nTo: {to}\\r\\nSubject: Your code\\r\\n"
        f"Message-ID: <{code}.{to}>\\r\\n\\r\\nYour verification code is {code}.\\r\\n"
    )
    with smtplib.SMTP(server.smtp_host, server.smtp_port, timeout=60) as line:
        line.sendmail("no-reply@acme.example", to, mail.encode())
"""
#: no plugin but those that are named
_ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
SECRET = "918273"
FAILING = f"""
def test_the_wrong_sender(oncebox_server, inbox, mail_faults):
    mail_faults.add("duplicate")
    send(oncebox_server, inbox.email, {SECRET[:3]}*1000 + {SECRET[3:]})
    inbox.wait_for_code(within=60)
    inbox.wait_for_code(sender="other.example", within=0.2)

def test_an_assertion(oncebox_server, inbox):
    send(oncebox_server, inbox.email, {SECRET[:3]}*1000 + {SECRET[3:]})
    assert inbox.wait_for_code(within=60).sender.domain == "other.example"

def test_without_a_service(oncebox_client, inbox):
    oncebox_client.close()
    inbox.wait_for_code(within=1)
"""
SHARED = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_own_code(number, oncebox_server, inbox):
    with open("pids", "a") as pids:
        print(oncebox_server.pid, file=pids)
    send(oncebox_server, inbox.email, 300100 + number)
    assert inbox.wait_for_code(within=60).value == str(300100 + number)
"""


def run_pytest(
    folder: Path,
    code: str,
    *options: str,
    environment: Mapping[str, str] | None = None,
    found: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Run pytest on one page, in a folder of its own and without our settings.

    ``found``: the plugin is found by pytest itself, as all that are installed; that takes longer.
    """
    (folder / "test_page.py").write_text(code)
    (folder / "pytest.toml").write_text("[pytest]\nstrict = true\nfilterwarnings = ['error']\n")
    rest = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    others = ("no:schemathesis", "no:langsmith_plugin", "no:playwright", "no:anyio")
    named = ("xdist.plugin", "oncebox.testing.plugin")
    loaded = [word for plugin in (others if found else named) for word in ("-p", plugin)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *loaded, *options],
        cwd=folder,
        env={**rest, **({} if found else _ALONE), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def passed(run: "subprocess.CompletedProcess[str]") -> dict[str, int]:
    """Return how many tests ended how."""
    words = run.stdout.strip().splitlines()[-1].strip("= ").partition(" in ")[0].split(", ")
    return {each.split()[1]: int(each.split()[0]) for each in words}


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"


def test_workers_share_one_service_which_ends_with_the_run(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, SEND + SHARED, "-n", "3")
    pids = set((tmp_path / "pids").read_text().split())

    assert passed(run) == {"passed": 6}, run.stdout
    assert len(pids) == 1
    for _ in until(60.0):
        if is_gone(int(next(iter(pids)))):
            return
    pytest.fail("the service lives on")


def test_a_run_that_is_killed_leaves_no_service_behind(tmp_path: Path) -> None:
    page = """
import os, signal

def test_killed(oncebox_server):
    with open("pids", "w") as pids:
        pids.write(str(oncebox_server.pid))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    run = run_pytest(tmp_path, page)
    assert run.returncode == -signal.SIGKILL
    pid = int((tmp_path / "pids").read_text())
    for _ in until(60.0):
        if is_gone(pid):
            return
    pytest.fail("the service lives on")


def test_a_failing_test_tells_why_each_message_did_not_fit_and_no_secret(
    tmp_path: Path, oncebox_server: OnceboxServer
) -> None:
    run = run_pytest(
        tmp_path, SEND + FAILING, "-vv", "--showlocals", environment=oncebox_server.environ
    )
    said = run.stdout + run.stderr

    assert passed(run) == {"failed": 3}, said
    assert said.count("- oncebox -") == 3
    assert "(number 1): sender_not_allowed" in said
    assert "duplicate (mail 1)" in said
    assert "(active): 1 message" in said
    assert "the service could not be asked: client_closed" in said
    assert SECRET not in said
    assert oncebox_server.api_key not in said
    assert "oncebox/client/" not in said


STAGING = """
import smtplib

def test_staging(oncebox_server, inbox):
    link = "http://staging.acme.internal:3000/verify?token=a8f7d6s5a4f3d2s1a0f9d8s7"
    mail = f"From: Acme <a@acme.example>\\nSubject: Verify\\n\\nVerify your address: {link}"
    with smtplib.SMTP(oncebox_server.smtp_host, oncebox_server.smtp_port, timeout=60) as app:
        app.sendmail("a@acme.example", inbox.email, mail)
    assert inbox.wait_for_link(within=60).link.host == "staging.acme.internal"
"""


def test_a_refused_link_names_the_option_that_allows_it_in_all_tests(
    tmp_path: Path, oncebox_server: OnceboxServer
) -> None:
    refused = run_pytest(tmp_path, STAGING, environment=oncebox_server.environ)
    option = "oncebox_link_origins=http://staging.acme.internal:3000"
    allowed = run_pytest(tmp_path, STAGING, "-o", option, environment=oncebox_server.environ)
    wrong = run_pytest(
        tmp_path, STAGING, "-o", "oncebox_link_origins=x y", environment=oncebox_server.environ
    )

    assert passed(refused) == {"failed": 1}, refused.stdout
    report = refused.stdout.partition("- oncebox -")[2]
    assert "pytest -o oncebox_link_origins=http://HOST:PORT" in report
    assert "a8f7d6s5a4f3" not in report
    assert passed(allowed) == {"passed": 1}, allowed.stdout
    assert passed(wrong) == {"error": 1}, wrong.stdout
    assert "oncebox_link_origins" in wrong.stdout


def test_the_service_that_runs_already_is_used(
    tmp_path: Path, oncebox_server: OnceboxServer
) -> None:
    page = SEND + (
        "\ndef test_it(oncebox_server, inbox):\n"
        f"    assert oncebox_server.url == {oncebox_server.url!r}\n"
        "    assert oncebox_server.pid is None\n"
        "    send(oncebox_server, inbox.email, '300200')\n"
        "    assert inbox.wait_for_code(within=60).value == '300200'\n"
    )
    key = {"ONCEBOX_API_KEY": oncebox_server.api_key}
    run = run_pytest(tmp_path, page, "--oncebox-url", oncebox_server.url, environment=key)

    assert passed(run) == {"passed": 1}, run.stdout


def test_tests_are_kept_away_from_a_service_that_is_not_in_test_mode(tmp_path: Path) -> None:
    with running(fresh_sqlite(tmp_path), tmp_path) as real:
        environment = {"ONCEBOX_URL": real.url, "ONCEBOX_API_KEY": real.key}
        run = run_pytest(tmp_path, "def test_it(inbox): pass\n", environment=environment)

    assert passed(run) == {"error": 1}, run.stdout
    assert f"the service at {real.url} is not in test mode" in run.stdout
    assert "start one with: oncebox serve --test" in run.stdout
    assert real.key not in run.stdout


@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_who_does_not_use_it_does_not_notice_it(tmp_path: Path, options: tuple[str, ...]) -> None:
    """No server, no client, no warning, no folder; and a fixture of one's own wins."""
    page = """
import sys
import pytest

@pytest.fixture
def inbox():
    return "mine"

def test_it(inbox):
    loaded = {name for name in sys.modules if name.startswith(("oncebox", "msgspec", "httpx"))}
    assert inbox == "mine"
    assert loaded <= {
        "oncebox", "oncebox.testing", "oncebox.testing.plugin", "oncebox.testing.server_lifetime"
    }
"""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    run = run_pytest(tmp_path, page, *options, found=True, environment={"TMPDIR": str(temporary)})

    assert passed(run) == {"passed": 1}, run.stdout + run.stderr
    assert [each.name for each in temporary.iterdir() if each.name.startswith("oncebox")] == []
    assert "oncebox" not in run.stderr


def test_where_files_have_no_locks_all_other_tests_run(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['fcntl'] = None\n")
    run = run_pytest(
        tmp_path, "def test_it(): pass\n", "-n", "1", environment={"PYTHONPATH": str(tmp_path)}
    )

    assert passed(run) == {"passed": 1}, run.stdout + run.stderr


def test_a_report_that_cannot_be_made_ends_no_run() -> None:
    def broken() -> str:
        raise RuntimeError(SECRET)

    assert fixtures.failure_report(ValueError(), [broken, lambda: "more"]).splitlines() == [
        "the service could not be asked: RuntimeError",
        "more",
    ]


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, "def test_it(inbox): pass\n", "-p", "no:oncebox", found=True)

    assert passed(run) == {"error": 1}
    assert "fixture 'inbox' not found" in run.stdout
