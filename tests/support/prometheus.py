"""A real Prometheus: its own configuration, data and port, scraping and evaluating every moment."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.debian import program
from tests.support.ports import free_port
from tests.torture.processes import Child, Children

_PACKAGE = "prometheus"
#: seconds; only an alert that never fires reaches it
_LONGEST = 90.0


def check_rules(path: Path) -> str:
    """Return what promtool finds wrong with a file of rules; empty if nothing."""
    return _promtool("check", "rules", str(path))


def run_rule_tests(path: Path) -> str:
    """Return what promtool finds wrong when it runs the unit tests in a file."""
    return _promtool("test", "rules", str(path))


def _promtool(*words: str) -> str:
    ran = subprocess.run(
        [program("promtool", _PACKAGE), *words], check=False, capture_output=True, text=True
    )
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


class Prometheus:
    """A server that scrapes targets and evaluates rules."""

    def __init__(
        self, folder: Path, children: Children, rules: Path, targets: Sequence[str], key: str = ""
    ) -> None:
        self._port = free_port()
        job: dict[str, Any] = {"job_name": "oncebox", "static_configs": [{"targets": [*targets]}]}
        if key:
            job["authorization"] = {"credentials": key}
        every = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
        config = folder / "prometheus.yml"
        config.write_text(
            json.dumps(
                {  # which is YAML too
                    "global": {**every, "evaluation_interval": "200ms"},
                    "rule_files": [str(rules)],
                    "scrape_configs": [job],
                }
            )
        )
        self._server: Child = children.start(
            "prometheus",
            [
                program("prometheus", _PACKAGE),
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'series'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
        )
        self._server.wait_for("Server is ready", timeout=_LONGEST)

    def wait_for(self, holds: Callable[[set[tuple[str, str]]], bool]) -> set[tuple[str, str]]:
        """Wait until something holds of the firing alerts; return them by name and source."""
        give_up = time.monotonic() + _LONGEST
        while True:
            found = self._firing()
            if holds(found):
                return found
            if time.monotonic() > give_up:
                message = f"these fire: {sorted(found)}\n{self._server.text()[-3000:]}"
                raise AssertionError(message)
            time.sleep(0.1)

    def wait_until_scraped(self) -> None:
        """Wait until every target was scraped a few times, so that an increase has a beginning."""
        give_up = time.monotonic() + _LONGEST
        query = "min(count_over_time(up[1h])) * min(up)"
        while not any(float(each["value"][1]) >= 3 for each in self._query(query)):
            if time.monotonic() > give_up:
                raise AssertionError(self._server.text()[-3000:])
            time.sleep(0.1)

    def _firing(self) -> set[tuple[str, str]]:
        alerts = self._get("/api/v1/alerts")["alerts"]
        return {
            (each["labels"]["alertname"], each["labels"].get("source", ""))
            for each in alerts
            if each["state"] == "firing"
        }

    def _query(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(f"/api/v1/query?query={quote(query)}")["result"]
        return found

    def _get(self, path: str) -> Any:
        url = f"http://127.0.0.1:{self._port}{path}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read())["data"]
