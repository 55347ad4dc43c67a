"""What the pages for operators show beside commands: on PostgreSQL, behind proxies, with alerts."""

import re
import subprocess
from pathlib import Path

import httpx2
import pytest
import trustme
import yaml  # type: ignore[import-untyped]

from oncebox.cli.output import failures
from oncebox.model.deliveries.delivery import Delivery, DeliveryOutcome, DeliveryState
from oncebox.model.deliveries.duplicates import DuplicateClass
from oncebox.model.webhooks.source import SourceState
from oncebox.workers.deliveries.once import Once
from tests.docs.page import blocks
from tests.docs.reader import Reader
from tests.docs.reference import DOCS, metrics
from tests.support.debian import program
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.torture.processes import Children

METRIC = re.compile(r"\b(oncebox_\w+?)(?:_bucket|_count|_sum)?(?=[\s{\[)(`,]|$)")
LABELLED = re.compile(r"(oncebox_\w+)\{([^}]*)\}")

#: what labels may say, where that is written down
VALUES: dict[str, set[str]] = {
    "class": {*DuplicateClass},
    "outcome": {*DeliveryOutcome},
    "state": {*SourceState, *DeliveryState},
}


def test_the_commands_on_postgresql(reader: Reader, postgres: Postgres, tmp_path: Path) -> None:
    *_, block = blocks(DOCS / "serving.md", "sh")
    reader.type("openssl rand -base64 32 > key")
    reader.set(ONCEBOX_MASTER_KEY="")
    *typed, last = block.replace("/run/secrets/oncebox-key", str(tmp_path / "key")).splitlines()
    url = postgres.create_database("docs")
    assert "applied" in reader.type(re.sub(r"postgresql://\S+", url, "\n".join(typed)))
    # The tests' server runs without fsync, which the doctor reports.
    assert "fsync\tfail" in reader.type(last, code=failures.ERROR)


@pytest.mark.parametrize("word", ["=done", "=not-done"])
def test_an_effect_in_doubt_is_ended_by_the_command_of_the_page(reader: Reader, word: str) -> None:
    (release,) = blocks(DOCS / "operating.md", "console")
    (line,) = [each for each in release.splitlines() if word in each]

    async def lost(delivery: Delivery, once: Once) -> None:
        await once.do("open-issue", _lost)

    (id_,) = reader.ids("delivery", "accept", "shop", "--key", "1", "--body", "{}")
    reader.work(lost, source="shop")
    assert "open-issue unknown" in reader.type(f"oncebox delivery inspect {id_}")
    reader.type(line, dlv=id_)
    assert reader.ids("delivery", "list", "--state", "received") == [id_]


def _lost() -> None:
    raise RuntimeError("the answer was lost")


def test_behind_nginx_the_service_answers_and_streams_and_metrics_stay_inside(
    reader: Reader, tmp_path: Path
) -> None:
    nginx = program("nginx", "nginx-light")
    (server,) = blocks(DOCS / "security.md", "nginx")
    port, authority = free_port(), trustme.CA()
    authority.issue_cert("hooks.example.com").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "pem"
    )
    with reader.service() as service, Children(tmp_path) as children:
        config = (
            server.replace("listen 443", f"listen 127.0.0.1:{port}")
            .replace("/etc/ssl/hooks.example.com.pem", str(tmp_path / "pem"))
            .replace("/etc/ssl/hooks.example.com.key", str(tmp_path / "pem"))
            .replace("http://127.0.0.1:8808", service.url)
        )
        places = "".join(
            f"{name}_temp_path {tmp_path}/{name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"daemon off;\npid {tmp_path}/pid;\nerror_log stderr notice;\nevents {{}}\n"
            f"http {{\naccess_log off;\n{places}{config}}}\n"
        )
        proxy = children.start("nginx", [nginx, "-p", str(tmp_path), "-c", "nginx.conf"])
        proxy.wait_for("start worker process")
        with httpx2.Client(verify=False) as client:
            ready = client.get(f"https://127.0.0.1:{port}/readyz")
            inside = client.get(f"https://127.0.0.1:{port}/metrics")
            wanted = {"accept": "text/event-stream", "authorization": f"Bearer {service.key}"}
            with client.stream(
                "GET", f"https://127.0.0.1:{port}/v1/events", headers=wanted
            ) as stream:
                first = next(stream.iter_lines())  # although the answer goes on
        proxy.terminate()

    assert (ready.status_code, inside.status_code) == (200, 404)
    assert first.startswith("id: ")


def test_the_files_for_caddy_and_the_firewall_are_well_formed(tmp_path: Path) -> None:
    (caddy,) = blocks(DOCS / "security.md", "caddy")
    (tmp_path / "Caddyfile").write_text(caddy)
    adapt = [program("caddy", "caddy"), "adapt", "--config", str(tmp_path / "Caddyfile")]

    assert b"127.0.0.1:8808" in subprocess.run(adapt, check=True, capture_output=True).stdout
    (rules,) = blocks(DOCS / "security.md", "nft")
    assert rules.count("{") == rules.count("}")


def test_alerts_name_metrics_and_labels_that_there_are() -> None:
    (text,) = blocks(DOCS / "reference" / "alerts.md", "yaml")
    (group,) = yaml.safe_load(text)["groups"]
    rules = [each["expr"] for each in group["rules"]]
    labels = {name: set(given) for name, _, given, _ in metrics()}

    named = {found for rule in rules for found in METRIC.findall(rule)}
    assert len(rules) >= 10
    assert all(each["annotations"]["summary"] for each in group["rules"])
    assert named - labels.keys() == set()
    for rule in rules:
        for name, given in LABELLED.findall(rule):
            assert set(re.findall(r"(\w+)=", given)) <= labels[name]
            for label, text in re.findall(r'(\w+)=~?"([^"]*)"', given):
                assert set(text.split("|")) <= VALUES.get(label, set(text.split("|")))


@pytest.mark.parametrize("page", ["monitoring.md", "serving.md", "troubleshooting.md"])
def test_every_metric_that_is_spoken_of_is_one(page: str) -> None:
    known = {name for name, *_ in metrics()}
    named = set(METRIC.findall((DOCS / page).read_text()))

    assert named - known == set()
