"""Stripe tells of an invoice again and again, and the service dies after the deed: one issue."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
import stripe

from oncebox.cli import main
from tests.cli.services import Running, Services
from tests.torture.processes import Children, until

pytestmark = pytest.mark.timeout(300)
SECRET = "whsec_examples_only"
ISSUE = "Ship what invoice in_1 paid for"
EVENT = json.dumps(
    {
        "id": "evt_1",
        "object": "event",
        "type": "invoice.paid",
        "data": {"object": {"id": "in_1", "object": "invoice"}},
    }
)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with Children(tmp_path) as children:
        services = Services(tmp_path, children)
        services.set("STRIPE_SECRET", SECRET)
        services.set("TRACKER", str(tmp_path / "issues.txt"))
        services.set("ONCEBOX_RETRY__TRIES", "50")
        services.set("ONCEBOX_WORKER__LEASE", "3")
        services.set("ONCEBOX_WORKER__WATCHDOG", "0")
        yield services


def test_a_storm_and_a_crash_after_the_deed_make_one_issue(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRIPE_SECRET", SECRET)
    add = ("source", "add", "stripe", "--scheme", "stripe", "--secret", "env:STRIPE_SECRET")
    assert main.run([*add, "--data-dir", str(services.folder)]) == 0
    services.set("ONCEBOX_FAULTS", "worker.settled-not-committed:1:kill")
    dying = services.serve("examples.stripe_issue:box")
    with suppress(httpx2.TransportError):  # it may die before it has answered
        _tell(dying, 1)
    dying.child.wait_for("issue 1 is open for in_1", timeout=60)
    dying.child.wait_for("worker_died", timeout=60)
    dying.child.kill()

    services.set("ONCEBOX_FAULTS", "")
    service = services.serve("examples.stripe_issue:box")
    assert _tell(service, 20) == {200}
    service.child.wait_for("issue 1 is open for in_1", timeout=60)
    for _ in until(60):
        (found,) = service.json("/v1/deliveries?source=stripe")["data"]
        if found["state"] == "done":
            break
    service.child.terminate()

    assert found["state"] == "done"
    assert (tmp_path / "issues.txt").read_text().splitlines() == [ISSUE]


def _tell(service: Running, times: int) -> set[int]:
    """Tell of the event as Stripe does, all at once; return how that was answered."""
    now = int(time.time())
    signature = stripe.WebhookSignature.generate_signature_header(EVENT, SECRET, now)
    headers = {"Stripe-Signature": signature, "Content-Type": "application/json"}

    def post(_: int) -> int:
        url = f"{service.url}/in/stripe"
        return httpx2.post(url, content=EVENT, headers=headers, timeout=20).status_code

    with ThreadPoolExecutor(max_workers=5) as senders:
        return set(senders.map(post, range(times)))
