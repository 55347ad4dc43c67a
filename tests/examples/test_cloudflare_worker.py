"""The worker for Cloudflare: it throws unless the mail is stored, and rejects mail for nobody."""

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.webhooks.test_inbound_mail import NOBODY, RAW, Desk
from tests.support.databases import Place
from tests.support.hookserver import serving
from tests.support.inbound import PROVIDERS, SECRET, SENDER, MailKeeper

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "examples/cloudflare-email-worker/worker.js"
NODE = shutil.which("node")
_RUN = """
import worker from "%s";
const { raw, from, to, env } = JSON.parse(process.argv[1]);
const setReject = () => console.log("rejected");
const message = { raw: Buffer.from(raw, "base64"), from, to, setReject };
try { await worker.email(message, env); console.log("ended"); }
catch (error) { console.log("threw"); }
"""

pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js runs the worker; install it")


@pytest.fixture
async def desk(place: Place) -> AsyncIterator[Desk]:
    async with MailKeeper() as keeper, serving(place) as server:
        yield Desk(server, keeper)


async def run(tmp_path: Path, url: str, to: str, secret: str = SECRET) -> list[str]:
    """Let the worker hand over a mail; return what it did."""
    module = tmp_path / "worker.mjs"
    module.write_text(WORKER.read_text())
    said = json.dumps({
        "raw": base64.b64encode(RAW).decode(), "from": SENDER, "to": to,
        "env": {"ONCEBOX_URL": url, "ONCEBOX_SECRET": secret},
    })  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        str(NODE), "--input-type=module", "-e", _RUN % module.as_uri(), said,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    return out.decode().split()


async def test_a_mail_is_stored_before_the_worker_ends(desk: Desk, tmp_path: Path) -> None:
    inbox, cloudflare = await desk.inbox(), PROVIDERS["cloudflare"]
    await desk.source(cloudflare)

    assert await run(tmp_path, desk.url(cloudflare), inbox.email) == ["ended"]

    (found,) = await desk.stored()
    assert (found.body, found.envelope.sender) == (RAW, SENDER)


async def test_the_worker_throws_when_oncebox_is_down_or_refuses_the_secret(
    desk: Desk, tmp_path: Path
) -> None:
    cloudflare = PROVIDERS["cloudflare"]
    await desk.source(cloudflare)

    assert await run(tmp_path, "http://127.0.0.1:9/in/cloudflare", NOBODY) == ["threw"]
    assert await run(tmp_path, desk.url(cloudflare), NOBODY, "another") == ["threw"]
    assert await run(tmp_path, desk.url(cloudflare) + "-elsewhere", NOBODY) == ["threw"]


async def test_the_worker_rejects_mail_for_nobody(desk: Desk, tmp_path: Path) -> None:
    cloudflare = PROVIDERS["cloudflare"]
    await desk.source(cloudflare)

    assert await run(tmp_path, desk.url(cloudflare), NOBODY) == ["rejected", "ended"]
