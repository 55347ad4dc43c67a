"""The wheel holds everything, and alone in an empty environment it does everything."""

import hmac
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import urllib.error
import urllib.request
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from oncebox.cli.main import GROUPS
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.packaging.environments import PINS, UV, Installed
from tests.project.tree import ROOT, name, project_files
from tests.torture.processes import Child, Children, until

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SECRET = "s3cret"
BODY = b'{"action": "opened", "issue": {"number": 1, "title": "It works"}}'
#: what a newcomer does first: an inbox, its mail, the code; and a mail of their own
USES = """
import smtplib, sys
from oncebox import Client, Email

client = Client()
inbox = client.inboxes.create(attempt_id="signup-42")
host, _, port = sys.argv[1].rpartition(":")
with smtplib.SMTP(host, int(port)) as acme:
    acme.sendmail("no-reply@acme.com", inbox.email, "Subject: Hi\\n\\nYour code is 482913.")
print(inbox.wait_for_code(within=60).value)
email = Email(sender="shop@example.com", to="ann@example.com", subject="Thanks", text="Paid.")
print(client.send(email, event_type="paid", entity_id="1", wait=10).status)
print(sorted(each.source for each in client.deliveries.list()))
"""
#: the base is meant to stay small
MOST = 36


def test_the_sdist_holds_what_the_wheel_is_made_from_and_the_tests(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        packed = {each.partition("/")[2] for each in opened.getnames()}
    # What only git and build servers read may stay behind.
    hidden = {".gitignore", ".ci/run"}

    assert {name(path) for path in project_files()} - packed <= hidden


def test_the_wheel_holds_license_types_queries_and_pages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        packed = set(opened.namelist())
        entries = opened.read("oncebox-0.1.0.dist-info/entry_points.txt").decode()
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"].get("force-include", {})
    pages = {
        f"{there}/{path.relative_to(ROOT / here).as_posix()}"
        for here, there in included.items()
        for path in (ROOT / here).rglob("*.md")
    }

    assert {"oncebox/py.typed", "oncebox-0.1.0.dist-info/licenses/LICENSE"} <= packed
    assert any(each.startswith("oncebox/db/migrations/postgres/") for each in packed)
    assert "oncebox/ledger/sends/sends.sql" in packed
    assert {
        f"oncebox/mail/languages/{path.name}"
        for path in (ROOT / "src/oncebox/mail/languages").glob("*.toml")
    } <= packed
    assert pages - packed == set()
    assert "oncebox = oncebox.cli.main:main" in entries
    assert not [each for each in packed if "__pycache__" in each or each.startswith("tests/")]


def test_the_base_is_what_the_project_asks_for_and_small(base: Installed) -> None:
    installed = base.distributions
    wanted, found = {"oncebox"}, set[str]()
    while wanted:
        each = wanted.pop()
        found.add(each)
        needed = map(Requirement, installed[each])
        wanted |= {
            need.name.lower().replace("_", "-")
            for need in needed
            if need.marker is None or need.marker.evaluate({"extra": ""})
        } - found

    assert set(installed) == found
    assert len(installed) <= MOST
    assert installed.keys().isdisjoint({"psycopg", "mcp", "pydantic", "pytest"})


def test_an_extra_that_is_missing_is_named(base: Installed) -> None:
    key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    told = base.fail(
        "oncebox", "migrate", "--database", "postgresql://127.0.0.1:1/x", ONCEBOX_MASTER_KEY=key
    )
    assert "pip install 'oncebox[postgres]'" in told
    if "mcp" in GROUPS[""]:
        assert "pip install 'oncebox[mcp]'" in base.fail("oncebox", "mcp")


def test_the_wheel_alone_does_everything_with_no_configuration(
    base: Installed, tmp_path: Path
) -> None:
    assert base.run("oncebox", "--version") == "oncebox 0.1.0\n"
    with Children(tmp_path) as children:
        served = _serve(children, base, base.bin / "oncebox", "serve")
        told = _greeting(served)
        assert Path(told["credentials"]).is_relative_to(base.home)
        assert "key" not in told
        assert json.loads(Path(told["credentials"]).read_text())["key"].startswith("obx_")
        _add_github(base)
        assert _webhook(told["url"]) == 200
        printed = base.run("python", "-c", USES, told["smtp"]).splitlines()
        served.terminate()
        assert served.wait(timeout=60) == 0

    assert printed == ["482913", "logged", "['@mail', 'github']"]


def test_uvx_serves_with_no_configuration(
    base: Installed, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = blocks(DOCS / "installing.md", "sh")[1].split()
    assert command[:2] == ["uvx", "--from"]
    assert command[2] == f"dist/{wheel.name}"
    command[:3] = [str(UV.with_name("uvx")), "--from", str(wheel)]
    with Children(tmp_path) as children:
        served = children.start(
            "uvx",
            command,
            environment={
                # Where uv looks for what it has loaded before stays; the data is a newcomer's.
                "XDG_DATA_HOME": str(tmp_path),
                "UV_CONSTRAINT": str(PINS),
                "UV_PYTHON": sys.executable,
                "UV_PYTHON_DOWNLOADS": "never",
                "UV_SYSTEM_CERTS": "true",
                "ONCEBOX_HTTP__PORT": "0",
                "ONCEBOX_SMTP__PORT": "0",
            },
        )
        served.wait_for("service_started", timeout=100)
        told = _greeting(served)
        assert _is_ready(told["url"])
        assert Path(told["data"]).is_relative_to(tmp_path)


def test_the_pages_commands_for_pip_install_what_was_pinned() -> None:
    dist, _uvx, pipx, plain, pinned, *_rest = blocks(DOCS / "installing.md", "sh")
    wheel = f"dist/oncebox-{PROJECT['project']['version']}-py3-none-any.whl"

    assert dist == "make dist\n"
    for text in (pipx, plain, pinned):
        assert wheel in text
        assert (ROOT / "requirements" / "run.txt").exists()
    assert "--require-hashes -r requirements/run.txt" in pinned


def _is_ready(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/readyz", timeout=20) as answer:  # noqa: S310 - our own
        return bool(answer.status == 200)


def _serve(children: Children, base: Installed, *command: str | Path) -> Child:
    words = ["/usr/bin/env", "-i", *(f"{n}={v}" for n, v in base.environment.items())]
    served = children.start("serve", [*words, *map(str, command)])
    served.wait_for("service_started", timeout=100)
    return served


def _greeting(served: Child) -> dict[str, str]:
    lines = re.findall(r"^(\w+): +(\S.*)$", served.text(), re.MULTILINE)
    return dict(lines)


def _add_github(base: Installed) -> None:
    added = subprocess.run(
        [base.bin / "oncebox", "source", "add", "github", "--scheme", "github", "--secret", "-"],
        input=SECRET.encode(),
        capture_output=True,
        check=False,
        env=base.environment,
    )
    assert added.returncode == 0, added.stderr


def _webhook(url: str) -> int:
    """Send what GitHub would, until the service has heard of the source."""
    signature = hmac.digest(SECRET.encode(), BODY, "sha256").hex()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "issues",
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-Hub-Signature-256": f"sha256={signature}",
    }
    asked = urllib.request.Request(f"{url}/in/github", BODY, headers)  # noqa: S310 - our own
    for _ in until(30):
        with (
            suppress(urllib.error.HTTPError),  # the book of sources is seconds old
            urllib.request.urlopen(asked, timeout=20) as answer,  # noqa: S310 - our own
        ):
            assert json.load(answer) == {"status": "accepted"}
            return int(answer.status)
    return 0
