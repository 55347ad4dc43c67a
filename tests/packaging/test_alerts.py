"""The alerts for Prometheus: well formed, silent while all is well, and firing when it is not."""

import re
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from ruamel.yaml import YAML

from tests.cli.services import Running
from tests.cli.workers import QUICK
from tests.docs.reference import metrics
from tests.project.tree import ROOT
from tests.support import prometheus
from tests.support.prometheus import Prometheus
from tests.torture.processes import Child, Children

RULES = ROOT / "packaging" / "prometheus" / "oncebox.rules.yml"
#: what the test sets instead, so that a day passes in seconds and a small disk is large enough
INSTEAD = {"[1d]": "[3s]", "[7d]": "[1h]", "< 1073741824": "< 16777216"}
#: not that of OnceboxDown: on a busy machine one slow scrape is no outage
_FOR = re.compile(r"(?<!== 0\n)^ +for: .*\n", re.MULTILINE)
_SMALL_DISK = 'mount -t tmpfs -o size=64m none "$1" && shift && exec "$@"'
_FILLING = 52 * 1024 * 1024


def rules() -> list[dict[str, Any]]:
    """Return the rules of the file."""
    (group,) = YAML(typ="safe").load(RULES)["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_the_rules_are_well_formed() -> None:
    assert prometheus.check_rules(RULES) == ""
    assert len({each["alert"] for each in rules()}) == len(rules()) > 15


def test_every_alert_is_of_a_metric_that_exists_and_says_what_to_do() -> None:
    known = {name for name, *_ in metrics()}
    named = {found for each in rules() for found in re.findall(r"\boncebox_\w+", each["expr"])}

    assert named <= known
    assert all(each["annotations"]["summary"] for each in rules())


#: series as a process shows them while all is well, every five minutes
WELL = {
    'up{job="oncebox"}': "1x400",
    "oncebox_free_disk_bytes": "9e9x400",
    'oncebox_deliveries{state="dead",source="shop"}': "0x400",
    'oncebox_deliveries{state="held",source="shop"}': "0x400",
    'oncebox_settled_total{source="shop",outcome="failed"}': "0x400",
    'oncebox_accepted_total{source="shop"}': "0+1x400",
    'oncebox_accepted_total{source="never"}': "0x400",
    'oncebox_oldest_due_seconds{source="shop"}': "0x400",
    'oncebox_oldest_held_seconds{source="shop"}': "0x400",
    "oncebox_inboxes_missed_total": "0x400",
    'oncebox_waits_total{end="timeout"}': "0+5x400",
    'oncebox_waits_total{end="granted"}': "0+5x400",
    'oncebox_rejected_total{class="wrong_source"}': "0x400",
    'oncebox_mailbox_lag_seconds{tenant="default",mailbox="support"}': "0 30x399",
    'oncebox_mailbox_paused{tenant="default",mailbox="support"}': "0x400",
}
#: alerts, and how the series differ when they fire
ILL: dict[str, dict[str, str]] = {
    "OnceboxDown": {'up{job="oncebox"}': "1x398 0x2"},
    "OnceboxDiskFull": {"oncebox_free_disk_bytes": "9e9x399 1e8"},
    "OnceboxDeadDeliveries": {'oncebox_deliveries{state="dead",source="shop"}': "0x399 1"},
    "OnceboxHeldDeliveries": {'oncebox_deliveries{state="held",source="shop"}': "0x399 1"},
    "OnceboxHeldForLong": {'oncebox_oldest_held_seconds{source="shop"}': "0+300x400"},
    "OnceboxRepeatedFailures": {
        'oncebox_settled_total{source="shop",outcome="failed"}': "0x397 0+5x2"
    },
    "OnceboxWorkWaiting": {'oncebox_oldest_due_seconds{source="shop"}': "0x396 0+300x3"},
    "OnceboxSourceSilent": {'oncebox_accepted_total{source="shop"}': "0+1x100 100x299"},
    "OnceboxInboxesMissed": {"oncebox_inboxes_missed_total": "0x398 1x1"},
    "OnceboxMailMissing": {'oncebox_waits_total{end="granted"}': "0+5x390 1950x9"},
    "OnceboxMailboxBehind": {
        'oncebox_mailbox_lag_seconds{tenant="default",mailbox="support"}': "0x390 0+300x9"
    },
    "OnceboxMailboxPaused": {
        'oncebox_mailbox_paused{tenant="default",mailbox="support"}': "0x397 1x2"
    },
    "OnceboxWrongSource": {'oncebox_rejected_total{class="wrong_source"}': "0x397 0+5x2"},
}


def test_each_alert_fires_for_its_reason_and_none_while_all_is_well(tmp_path: Path) -> None:
    cases: dict[str, dict[str, str]] = {"": {}, **ILL}
    tests = [
        {
            "interval": "5m",
            "input_series": [
                {"series": name, "values": values} for name, values in {**WELL, **changed}.items()
            ],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "2000m",
                    "exp_samples": (
                        [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
                    ),
                }
            ],
        }
        for alert, changed in cases.items()
    ]
    file = tmp_path / "tests.yml"
    with file.open("w") as opened:
        content = {"rule_files": [str(RULES)], "evaluation_interval": "5m", "tests": tests}
        YAML(typ="safe").dump(content, opened)

    assert prometheus.run_rule_tests(file) == ""


def _serve_on_a_small_disk(folder: Path, children: Children) -> Child:
    """Start a service whose data is on a disk of its own, which nobody else sees."""
    data = folder / "data"
    data.mkdir()
    serve = [sys.executable, "-m", "oncebox", "serve", "tests.cli.apps.failing:box", "--port", "0"]
    child = children.start(
        "serve",
        ["unshare", "--mount", "sh", "-c", _SMALL_DISK, "sh", str(data), *serve],
        environment={**QUICK, "ONCEBOX_DATA_DIR": str(data), "ONCEBOX_SMTP__PORT": "0"},
    )
    child.wait_for("service_started", timeout=60)
    return child


def _patched_rules(folder: Path) -> Path:
    text = _FOR.sub("", RULES.read_text())
    for old, new in INSTEAD.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / "rules.yml"
    path.write_text(text)
    return path


@pytest.mark.timeout(240)
def test_the_first_dead_the_first_held_a_silent_source_and_a_full_disk_are_alerts(
    tmp_path: Path,
) -> None:
    with Children(tmp_path) as children:
        child = _serve_on_a_small_disk(tmp_path, children)
        inside = Path(f"/proc/{child.pid}/root{tmp_path}/data")
        service = Running(child, inside)
        with service.client() as client:
            source = {"name": "shop", "scheme": "none", "allow_unsigned": True}
            headers = {"Idempotency-Key": "1"}
            made = client.post("/v1/sources", json=source, headers=headers).raise_for_status()
        address = f"{service.url}/in/{made.json()['public_id']}"
        target = service.url.removeprefix("http://")
        server = Prometheus(tmp_path, children, _patched_rules(tmp_path), [target], key=service.key)
        server.wait_until_scraped()
        assert server.wait_for(lambda _firing: True) == set()

        for word in ("well", "held", "dead"):
            httpx2.post(address, content=word).raise_for_status()
        firing = {
            ("OnceboxDeadDeliveries", "shop"),
            ("OnceboxHeldDeliveries", "shop"),
            ("OnceboxSourceSilent", "shop"),
        }
        assert server.wait_for(lambda found: firing <= found) == firing

        (inside / "filler").write_bytes(bytes(_FILLING))
        server.wait_for(lambda found: ("OnceboxDiskFull", "") in found)
