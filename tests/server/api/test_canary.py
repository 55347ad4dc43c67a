"""A secret that passes through the service is found nowhere afterwards."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from oncebox.server.application import ROUTES
from tests.cli.services import Running, Services
from tests.server.api.test_permissions import BODIES, MAIL
from tests.torture.processes import Children

CANARY = "canary-b2c94f6d"
#: where a value may stand in a body of any route
SPOILT = [CANARY, [CANARY], {"x": CANARY}, CANARY * 10_000, f"\x00{CANARY}", 1]
#: fields that are meant to be seen: names, reasons, and settings of sources and inboxes
SEEN = {
    "name", "scheme", "public_id", "worker", "why", "options", "expect", "after", "attempt_id",
    "label", "local", "metadata", "event_type", "entity_id", "template", "inbox",
    "username", "address", "trust_results", "push",
}  # fmt: skip
#: what is told back to who said it; that it is sealed, tests of attempts show
TOLD = {("doneAction", "result")}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with Children(tmp_path) as children:
        services = Services(tmp_path, children)
        services.set("ONCEBOX_HTTP__WRONG_KEYS", "0")
        yield services.serve()


def test_a_secret_is_in_no_log_metric_error_or_document(service: Running, tmp_path: Path) -> None:
    with service.client() as client:
        answers = [
            *_secrets(client),
            *_keys(client),
            *_every_field(client),
            *_headers_and_paths(client),
            *_emails(client),
            client.get("/metrics"),
            client.get("/openapi.json"),
            client.get("/v1/sources"),
            client.get("/v1/keys"),
        ]
    _malformed(service)
    service.child.terminate()
    service.child.wait()
    pages = [str(dict(each.headers)) + each.text for each in answers]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert [
        page[max(0, page.index(CANARY) - 200) :][:300] for page in pages if CANARY in page
    ] == []
    assert len(pages) > 300
    assert [path.name for path in files if CANARY.encode() in path.read_bytes()] == []
    assert any(path.name == "oncebox.db" for path in files)


def test_the_first_key_is_only_where_it_was_said_to_be(service: Running, tmp_path: Path) -> None:
    with service.client() as client:
        for route in ROUTES:
            client.request(route.method, route.path, json={})
    found = {
        path.name
        for path in tmp_path.rglob("*")
        if path.is_file() and service.key.encode() in path.read_bytes()
    }

    assert found == {"credentials.json"}


def _secrets(client: httpx2.Client) -> Iterator[httpx2.Response]:
    """Add sources and secrets that hold the canary, rightly and wrongly."""
    bodies = [
        {"name": "a", "scheme": "stripe", "secrets": [CANARY]},
        {"name": "a", "scheme": "stripe", "secrets": [CANARY, 5]},
        {"name": "b", "scheme": "no such scheme", "secrets": [CANARY]},
        {"name": "b", "scheme": "none", "secrets": [CANARY]},
        {"name": "b", "scheme": "stripe", "secrets": [f"file:/{CANARY}"]},
        {"name": "b", "scheme": "stripe", "secrets": [CANARY] * 30},
    ]
    for number, body in enumerate(bodies):
        for _ in range(2):
            headers = {"Idempotency-Key": f"source-{number}"}
            yield client.post("/v1/sources", json=body, headers=headers)
    for value in SPOILT:
        headers = {"Idempotency-Key": str(hash(str(value)))}
        yield client.post("/v1/sources/a/secrets", json={"secret": value}, headers=headers)
        yield client.post("/v1/sources/x/secrets", json={"secret": value}, headers=headers)


def _keys(client: httpx2.Client) -> Iterator[httpx2.Response]:
    """Call every route with the canary as a key."""
    for route in ROUTES:
        for authorization in (f"Bearer {CANARY}", f"Basic {CANARY}", CANARY):
            headers = {"Authorization": authorization}
            yield client.request(route.method, route.path, headers=headers)


def _every_field(client: httpx2.Client) -> Iterator[httpx2.Response]:
    """Put the canary into every field of every body."""
    for route in ROUTES:
        if route.body is None:
            continue
        for field in route.body.__struct_fields__:
            for value in SPOILT[:3]:
                good = BODIES.get(route.body.__name__, {})
                if field in SEEN or (route.name, field) in TOLD:
                    continue
                yield client.request(
                    route.method,
                    route.path,
                    json={**good, field: value},
                    headers={"Idempotency-Key": f"{route.name}-{field}-{hash(str(value))}"},
                )


def _emails(client: httpx2.Client) -> Iterator[httpx2.Response]:
    """Put the canary into every field of an email in Resend's shape."""
    mail = {"from": MAIL["sender"], "to": MAIL["to"], "subject": "x", "text": MAIL["text"]}
    fields = (*mail, "html", "headers", "attachments", "tags", "scheduled_at")
    for field in fields:
        for value in (*SPOILT[:3], f"{CANARY}@example.org", {"X-A": CANARY}):
            yield client.post("/emails", json={**mail, field: value})
            yield client.post("/emails/batch", json=[mail, {**mail, field: value}])
    for to in ("b@example.org", "c@example.org"):
        headers = {"Idempotency-Key": CANARY}
        yield client.post("/emails", json={**mail, "to": to}, headers=headers)
    yield client.get(f"/emails/{CANARY}")


def _headers_and_paths(client: httpx2.Client) -> Iterator[httpx2.Response]:
    """Put the canary wherever else a client can put something."""
    yield client.get(f"/{CANARY}")
    yield client.get(f"/v1/sources/{CANARY}")
    yield client.get(f"/problems/{CANARY}")
    yield client.get(f"/in/{CANARY}?token={CANARY}")
    for query in ("cursor", "limit", "state", "source"):
        yield client.get("/v1/deliveries", params={query: f"!{CANARY}"})
    for header in ("Idempotency-Key", "X-Forwarded-For", "Content-Type", "Content-Encoding"):
        yield client.post("/v1/keys", content=CANARY, headers={header: f"{CANARY}!"})
    yield client.get("/v1/self", headers={"X-Request-Id": f"{CANARY}!"})
    yield client.get("/v1/self", headers={"X-Big": CANARY * 4_000})
    yield client.post("/v1/keys", content=CANARY * 200_000)


def _malformed(service: Running) -> None:
    """Send what is not HTTP."""
    parts = urlsplit(service.url)
    for text in (f"{CANARY}\r\n\r\n", f"GET /{CANARY} HTTP/1.1\r\n{CANARY}\r\n\r\n"):
        with socket.create_connection((parts.hostname, parts.port)) as client:
            client.sendall(text.encode())
            client.settimeout(10)
            answer = client.recv(4096)

        assert CANARY.encode() not in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "request_malformed"
