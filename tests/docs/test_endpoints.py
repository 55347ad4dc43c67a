"""The page about endpoints: its commands and its receiver work as printed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncebox.errors import SignatureInvalid
from oncebox.settings_loading import load_settings
from oncebox.testing.endpoint import EndpointRequest, ScriptedEndpoint
from tests.docs.page import blocks
from tests.docs.reference import DOCS

ONCEBOX = Path(sys.executable).with_name("oncebox")
PRINTED = "https://app.example.com/hooks"


def test_the_commands_work_and_the_receiver_takes_each_event_once(tmp_path: Path) -> None:
    commands, allow = blocks(DOCS / "endpoints.md", "sh")
    (receiver,) = blocks(DOCS / "endpoints.md", "python")
    environ = dict(os.environ, ONCEBOX_DATA_DIR=str(tmp_path), ONCEBOX_EGRESS__ALLOW="127.0.0.1")

    async def typed() -> tuple[list[str], EndpointRequest]:
        async with ScriptedEndpoint() as endpoint:
            lines = commands.replace(PRINTED, endpoint.url).replace("oncebox", str(ONCEBOX), 1)
            script = "\n".join(
                line.replace("oncebox ", f"{ONCEBOX} ", 1) if line.startswith("oncebox") else line
                for line in lines.splitlines()
            )
            done = await asyncio.to_thread(
                subprocess.run,
                ["bash", "-ec", script],
                env=environ, capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout.splitlines(), endpoint.requests[0]

    lines, request = asyncio.run(typed())
    secret = lines[0].split("\t")[2]
    page: dict[str, object] = {}
    exec(compile(receiver, "endpoints.md", "exec"), page)  # noqa: S102 - our own page
    receive, seen = page["receive"], set[str]()
    assert callable(receive)
    for _ in range(2):
        receive(dict(request.headers), request.body, secret, seen)

    assert "works" in lines[1]
    assert seen == {request.id}
    with pytest.raises(SignatureInvalid):
        receive(dict(request.headers), request.body + b" ", secret, seen)
    value = allow.strip().removeprefix("export ONCEBOX_EGRESS__ALLOW=")
    assert load_settings({"ONCEBOX_EGRESS__ALLOW": value}).egress.allow == value
