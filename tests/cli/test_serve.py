"""`oncebox serve`: greets, answers, works, restarts what died, and stops losing nothing."""

import asyncio
import json
import os
import pty
import resource
import signal
import smtplib
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from oncebox.box import Oncebox
from oncebox.ledger.deliveries import deduplication
from oncebox.ledger.inboxes import messages
from oncebox.settings_loading import load_settings
from tests.cli.services import Running, Services
from tests.cli.test_worker import are_done, wait_for_kids
from tests.cli.workers import is_gone, kids
from tests.support.http import Peer, post
from tests.support.letters import add_inbox, mail, posted
from tests.support.ports import free_port
from tests.torture.processes import Children, until

PLAIN = "tests.cli.apps.plain:box"
SLOW_CLIENTS = 300


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with Children(tmp_path) as children:
        yield Services(tmp_path, children)


def test_it_says_where_it_listens_and_where_everything_lies(services: Services) -> None:
    service = services.serve()
    told = service.greeting

    assert told["url"] == service.url
    assert told["smtp"].startswith("127.0.0.1:")
    assert told["data"] == str(services.folder / "oncebox.db")
    assert told["credentials"] == str(services.folder / "credentials.json")
    assert stat.S_IMODE((services.folder / "credentials.json").stat().st_mode) == 0o600
    assert service.json("/v1/self")["key"]["scopes"] == ["admin"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_first_key_is_shown_once_and_on_a_terminal_only(
    services: Services, tmp_path: Path, options: tuple[str, ...]
) -> None:
    service = services.serve(*options)
    assert service.key not in service.child.text()

    folder = tmp_path / "terminal"
    words = ("serve", "--port", "0", "--data-dir", str(folder), *options)
    first, second = _typed_on_a_terminal(*words), _typed_on_a_terminal(*words)
    key = json.loads((folder / "credentials.json").read_text())["key"]
    assert (first.count(key), second.count(key)) == (1, 0)


def _typed_on_a_terminal(*words: str) -> str:
    """Run a service on a terminal until it has started; return what it showed."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "oncebox", *words],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "ONCEBOX_SMTP__PORT": "0"},
    )
    os.close(theirs)
    shown = b""
    try:
        while b"service_started" not in shown:
            shown += os.read(ours, 4096)
    finally:
        child.terminate()
        with suppress(OSError):  # the terminal is gone when the last process has closed it
            while more := os.read(ours, 4096):
                shown += more
        child.wait(60)
        os.close(ours)
    return shown.decode()


def test_it_greets_and_obeys_without_a_standard_input(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "oncebox", "serve", "--port", "0", "--data-dir", str(tmp_path)]
    with Children(tmp_path) as children:
        child = children.start(
            "serve",
            ["sh", "-c", 'exec "$@" <&-', "sh", *command],
            environment={"ONCEBOX_SMTP__PORT": "0"},
        )
        child.wait_for("service_started", timeout=60)
        child.terminate()

        assert child.wait() == 0
        assert Running(child, tmp_path).greeting["url"]
        assert "worker_died" not in child.text()


def test_it_serves_and_works_in_one_process(services: Services) -> None:
    service = services.serve(PLAIN)
    services.accept(["quick"])
    services.wait_until(are_done, timeout=20)

    assert service.get("/healthz") == (200, b'{"status":"ok"}')
    status, body = service.get("/readyz")
    assert (status, json.loads(body)["status"]) == (200, "ready")
    assert len(kids(service.child.pid)) == 1
    (delivery,) = service.json("/v1/deliveries")["data"]
    assert (delivery["state"], delivery["type"]) == ("done", "quick")


def test_a_service_that_stops_says_so_before_it_closes_its_port(services: Services) -> None:
    services.set("ONCEBOX_HTTP__DRAIN", "4")
    service = services.serve(PLAIN)
    assert service.get("/readyz")[0] == 200

    service.child.terminate()
    service.child.wait_for("service_draining")

    with service.client() as client:
        stopping = client.get("/readyz")
        assert (stopping.status_code, stopping.json()["code"]) == (503, "server_busy")
        assert client.get("/v1/deliveries").status_code == 200  # on a new connection
    assert service.child.wait() == 0


def test_an_event_stream_ends_cleanly_however_slowly_the_service_stops(services: Services) -> None:
    services.set("ONCEBOX_WORKER__STOP_WITHIN", "2")
    service = services.serve(PLAIN)
    services.accept(["slow"], body="600")
    services.wait_for_note("begin slow-0")
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as stream:
        stream.sendall(
            b"GET /v1/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
            b"Authorization: Bearer %b\r\n\r\n" % service.key.encode()
        )
        said = b""
        while b"retry: " not in said:
            said += stream.recv(65_536)
        service.child.terminate()
        while part := stream.recv(65_536):
            said += part

    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.count(b"HTTP/1.1") == 1
    assert said.endswith(b"\r\n0\r\n\r\n")
    assert service.child.wait() == 0
    assert "request_failed" not in service.child.text()


def test_an_edge_serves_and_leaves_the_work_to_workers(services: Services) -> None:
    service = services.serve(PLAIN, "--role", "edge")
    services.accept(["quick"])
    (waiting,) = service.json("/v1/deliveries")["data"]
    worker = services.start_command("serve", PLAIN, "--role", "worker")
    worker.wait_for("service_started", timeout=60)
    services.wait_until(are_done, timeout=20)

    assert waiting["state"] == "received"
    assert "url:" not in worker.text()


def test_a_child_that_dies_is_started_again(services: Services) -> None:
    service = services.serve("--host", "127.0.0.1", port=str(free_port()))
    (first,) = wait_for_kids(service.child.pid, 1)
    os.kill(first, signal.SIGKILL)
    wait_for_kids(service.child.pid, 1, other_than={first})
    for _ in until(30.0):
        if service.child.text().count("service_started") == 2:
            break

    assert service.get("/healthz")[0] == 200
    assert service.child.text().count("credentials:") == 1


def test_asked_to_stop_it_finishes_requests_and_handlers(services: Services) -> None:
    services.accept(["slow"], body="1.5")
    service = services.serve(PLAIN)
    services.wait_for_note("begin slow-0")
    with socket.create_connection(_address(service)) as client:
        # A request that is half here when the service is asked to stop.
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")
        client.sendall(b"X: y\r\n\r\n")
        service.child.terminate()
        answer = client.recv(100)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert service.child.wait() == 0
    assert services.noted() == ["begin slow-0", "end slow-0"]
    assert [each.state for each in services.facts()] == ["done"]
    assert "service_stopped" in service.child.text()


def test_a_waiting_claim_is_let_go_when_the_service_stops(services: Services) -> None:
    service = services.serve()
    _add_source(service, "jobs")
    body = b'{"request_key": "12345678", "wait": 55}'
    with socket.create_connection(_address(service)) as client:
        client.sendall(
            post(
                body,
                f"Authorization: Bearer {service.key}",
                "Content-Type: application/json",
                path="/v1/deliveries/claim",
            )
        )
        client.settimeout(20)
        for _ in until(1.0):
            pass
        service.child.terminate()
        answer = client.recv(100)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert service.child.wait() == 0


def test_asked_twice_it_ends_at_once(services: Services) -> None:
    services.accept(["slow"], body="600")
    service = services.serve(PLAIN)
    services.wait_for_note("begin slow-0")
    service.child.terminate()
    for _ in until(0.3):
        pass
    service.child.terminate()

    assert service.child.wait(timeout=5) == 0


def test_a_killed_parent_takes_its_child_along(services: Services) -> None:
    service = services.serve()
    (child,) = kids(service.child.pid)
    service.child.kill()
    for _ in until(20.0):
        if is_gone(child):
            return
    pytest.fail("it lives on")


def test_a_service_that_was_killed_is_started_again_while_its_child_still_stops(
    services: Services,
) -> None:
    services.set("ONCEBOX_HTTP__DRAIN", "2")
    killed = services.serve()
    killed.child.kill()
    again = services.serve(port=str(urlsplit(killed.url).port))

    assert again.url == killed.url


@pytest.mark.parametrize("role", ["all", "worker"])
def test_mail_is_read_without_any_handler(services: Services, role: str) -> None:
    services.serve("--role", role)
    asyncio.run(_post(services.folder))
    for _ in until(30.0):
        if asyncio.run(_messages(services.folder)):
            return
    pytest.fail("the mail was not read")


async def _post(folder: Path) -> None:
    """Take a mail in, as the SMTP edge does."""
    box = await _opened(folder)
    tenant, now = box.settings.tenant, box.components.database.clock()
    await box.components.database.write(add_inbox, tenant=tenant)
    new = posted(mail(), "inb_1", now=now, tenant=tenant)
    await box.components.database.write(deduplication.accept, new, now)
    await box.close()


async def _messages(folder: Path) -> int:
    box = await _opened(folder)
    page = await box.components.database.read(messages.page, box.settings.tenant, "inb_1")
    await box.close()
    return len(page.messages)


async def _opened(folder: Path) -> Oncebox:
    box = Oncebox(settings=load_settings(data_dir=str(folder)))
    await box.open()
    return box


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "no.such.host.invalid"], "is no host name or address of this machine"),
        (["--host", "203.0.113.1"], "this machine has no such address"),
        (["nothing.here:box"], "there is no module 'nothing'"),
    ],
)
def test_what_cannot_work_is_told_once_and_not_tried_again(
    services: Services, arguments: list[str], words: str
) -> None:
    child = services.start_command("serve", *arguments, "--port", "0")

    assert child.wait(timeout=60) == 1
    assert words in child.text()
    assert child.text().startswith("error: ")
    assert child.text().count("\n") == 1


def test_a_port_that_is_taken_is_told(services: Services) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        child = services.start_command("serve", "--port", str(port))

        assert child.wait(timeout=60) == 1
    assert f"cannot listen on 127.0.0.1 port {port}: another program listens there" in child.text()
    assert "(--port, or http.host and http.port)" in child.text()


def test_a_port_for_mail_that_is_taken_is_told(services: Services) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        services.set("ONCEBOX_SMTP__PORT", str(port))
        child = services.start_command("serve", "--port", "0")

        assert child.wait(timeout=60) == 1
    assert f"cannot listen on 127.0.0.1 port {port}: another program listens there" in child.text()
    assert "smtp.port" in child.text()


def test_mail_is_received_where_it_says(services: Services) -> None:
    service = services.serve("--role", "edge")
    host, _, port = service.greeting["smtp"].rpartition(":")
    with smtplib.SMTP(host, int(port), timeout=20) as client:
        client.ehlo()
        offers = set(client.esmtp_features)
        refused = client.mail("ann@example.com"), client.rcpt("nobody@elsewhere.example")

    assert {"size", "pipelining", "8bitmime", "smtputf8", "enhancedstatuscodes"} <= offers
    assert [code for code, _ in refused] == [250, 550]
    service.child.terminate()
    assert service.child.wait(timeout=60) == 0


def test_mail_can_be_switched_off(services: Services) -> None:
    services.set("ONCEBOX_SMTP__ENABLED", "false")
    service = services.serve("--role", "edge")

    assert "smtp" not in service.greeting


@pytest.mark.parametrize("arguments", [["app"], ["--port", "70000"], ["--role", "both"]])
def test_misuse_is_exit_code_2(services: Services, arguments: list[str]) -> None:
    child = services.start_command("serve", *arguments)

    assert child.wait(timeout=60) == 2
    assert child.text().startswith("error: usage: ")


@pytest.mark.timeout(180)
def test_slow_clients_that_come_back_keep_nobody_out(services: Services) -> None:
    """Normal requests go on and none is refused; every slow connection is ended by us."""
    _allow_files(SLOW_CLIENTS + 200)
    for name, value in (("HEADERS_WITHIN", "3"), ("REQUEST_WITHIN", "6"), ("CONNECTIONS", "100")):
        services.set(f"ONCEBOX_HTTP__{name}", value)
    service = services.serve()
    host, port = _address(service)

    async def story() -> tuple[list[int], int]:
        slow = [asyncio.create_task(_come_back_slowly(host, port, n)) for n in range(SLOW_CLIENTS)]
        statuses = []
        keeper = await _connect(host, port)
        while not all(task.done() for task in slow):
            for peer in (keeper, fresh := await _connect(host, port)):
                peer.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                statuses.append((await peer.answer(within=30)).status)
            fresh.close()
            await asyncio.sleep(0.02)
        keeper.close()
        return statuses, sum(await asyncio.gather(*slow))

    statuses, ended = asyncio.run(story())

    assert set(statuses) == {200}
    assert len(statuses) >= 20
    assert ended == 2 * SLOW_CLIENTS


async def _come_back_slowly(host: str, port: int, number: int) -> int:
    """Keep the service waiting twice; return how often it ended the connection."""
    await asyncio.sleep(number % 200 / 100)
    for _ in range(2):
        peer = await _connect(host, port)
        if number % 2:
            peer.send(b"POST /in/x HTTP/1.1\r\nX-")
        await asyncio.sleep(0.5)
        if number % 2:
            peer.send(b"a")
        await peer.end(within=60)
        peer.close()
    return 2


async def _connect(host: str, port: int) -> Peer:
    return Peer(*await asyncio.open_connection(host, port))


def _add_source(service: Running, name: str) -> None:
    with service.client() as client:
        client.post(
            "/v1/sources",
            headers={"Idempotency-Key": name},
            json={"name": name, "scheme": "none", "allow_unsigned": True, "mode": "pull"},
        ).raise_for_status()


def _address(service: Running) -> tuple[str, int]:
    parts = urlsplit(service.url)
    return str(parts.hostname), int(parts.port or 0)


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def test_the_parent_loads_nothing_of_what_it_starts(services: Services) -> None:
    running = services.serve()
    (child,) = kids(running.child.pid)
    loaded = {pid: Path(f"/proc/{pid}/maps").read_text() for pid in (running.child.pid, child)}

    assert "/apsw/" in loaded[child]
    assert "/apsw/" not in loaded[running.child.pid]
    assert "/msgspec/" not in loaded[running.child.pid]


@pytest.mark.parametrize(("level", "format_"), [("warning", "json"), ("info", "text")])
def test_level_and_format_of_the_log_are_settings(
    services: Services, level: str, format_: str
) -> None:
    services.set("ONCEBOX_LOG__LEVEL", level)
    services.set("ONCEBOX_LOG__FORMAT", format_)
    child = services.start_command("serve", PLAIN, "--port", "0")
    child.wait_for("url:", timeout=60)
    for pid in wait_for_kids(child.pid, 1):
        os.kill(pid, signal.SIGKILL)
    line = child.wait_for("worker_died", timeout=60)
    child.terminate()
    child.wait()

    assert line.startswith('{"timestamp"' if format_ == "json" else "timestamp=")
    assert ("service_started" in child.text()) == (level == "info")
