"""The code on the pages about testing works as it is printed there; Resend's page says it all."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from oncebox.model.sends.transports import ProviderStatus
from oncebox.testing import chaos
from oncebox.testing.chaos import MailFault, MailRule, WebhookFault, WebhookRule
from oncebox.testing.shared_server import OnceboxServer
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.support.debian import program

PAGE = DOCS / "testing.md"
#: those that are for pytest, and those that are programs by themselves
TESTS = [each for each in blocks(PAGE, "python") if "def test_" in each]
PROGRAMS = [each for each in blocks(PAGE, "python") if "def test_" not in each]
#: a site that signs people up by a link, and the browser
SITE = '''
import shutil
import smtplib
import threading
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

FORM = """<form method=post><label>Email <input name=email></label>
<button>Sign up</button></form>"""


class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        token = "token=a8f7d6s5a4f3d2s1a0f9d8s7"
        self.say("<h1>Welcome</h1>" if token in self.path else FORM)

    def do_POST(self):
        length = int(self.headers["content-length"])
        mail = EmailMessage()
        mail["From"], mail["Subject"] = "no-reply@acme.example", "Verify your address"
        mail["To"] = parse_qs(self.rfile.read(length).decode())["email"][0]
        link = f"http://127.0.0.1:{self.server.server_port}/verify?token=a8f7d6s5a4f3d2s1a0f9d8s7"
        mail.set_content(f"Verify your address: {link}")
        with smtplib.SMTP(*self.server.smtp) as line:
            line.send_message(mail)
        self.say("We sent you a mail.")

    def say(self, html):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(html.encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def base_url(oncebox_server):
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        site.smtp = oncebox_server.smtp_host, oncebox_server.smtp_port
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    found = shutil.which("chromium")
    return {**browser_type_launch_args, "args": quiet, "executable_path": found}
'''


def run(folder: Path, server: OnceboxServer, pages: list[str], plugin: str) -> str:
    """Run pytest on some pages beside a service that runs already; return its last line."""
    for number, page in enumerate(pages):
        (folder / f"test_{number}.py").write_text(page)
    options = ("-p", "no:cacheprovider", "-p", plugin, "-p", "oncebox.testing.plugin")
    command = (sys.executable, "-m", "pytest", *options)
    ended = subprocess.run(
        [*command, *map(str, sorted(folder.glob("test_*.py")))],
        cwd=folder,
        env={**os.environ, **server.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.strip().splitlines()[-1].strip("= ").partition(" in ")[0]


def test_the_programs_of_the_page_run_from_top_to_bottom(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, Any] = {}
    for code in PROGRAMS:
        exec(compile(code, "testing.md", "exec"), names)  # noqa: S102 - it is our own page

    assert capsys.readouterr().out.splitlines() == [
        "lost, but accepted 1 time",
        "refused",
        "('OK', [b'1'])",
        "lost",
        "200",
        "200",
        "accepted 1 time",
    ]


def test_the_tests_of_the_page_pass_as_they_are_printed(
    tmp_path: Path, oncebox_server: OnceboxServer
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    pages = [each for each in TESTS if "page" not in each]

    assert run(tmp_path, oncebox_server, pages, "pytest_asyncio.plugin") == "6 passed"


def test_the_first_test_of_the_page_is_six_lines() -> None:
    assert len([line for line in TESTS[0].splitlines() if line]) <= 6


def test_the_test_with_a_browser_passes_as_it_is_printed(
    tmp_path: Path, oncebox_server: OnceboxServer
) -> None:
    program("chromium", "chromium")
    (tmp_path / "conftest.py").write_text(SITE)
    pages = [each for each in TESTS if "page" in each]

    assert run(tmp_path, oncebox_server, pages, "pytest_playwright.pytest_playwright") == "1 passed"


def test_the_rules_on_the_page_of_chaos_can_be_used(tmp_path: Path) -> None:
    (written,) = blocks(DOCS / "testing.md", "toml")
    (tmp_path / "rules.toml").write_text(written)
    rules = chaos.read_rules(tmp_path / "rules.toml")

    assert (rules.seed, len(rules.mail), len(rules.webhook)) == (7, 2, 1)


def test_the_page_of_chaos_names_every_fault_and_field() -> None:
    text = PAGE.read_text()
    faults = [
        *(f"| `{each}` | mail |" for each in get_args(MailFault)),
        *(f"| `{each}` | webhook |" for each in get_args(WebhookFault)),
    ]
    fields = {*MailRule.__struct_fields__, *WebhookRule.__struct_fields__}

    assert [each for each in faults if each not in text] == []
    assert [each for each in fields if f"`{each}`" not in text.partition("## Rules")[2]] == []


def test_resends_page_names_every_word_in_the_order_of_their_strength() -> None:
    text = (DOCS / "resend.md").read_text()
    places = [
        text.index(f"| `{each}` |")
        for each in ProviderStatus
        if each is not ProviderStatus.ACCEPTED
    ]

    assert places == sorted(places)
