"""``/mcp`` as a stranger finds it: names, pages, tokens and bodies that are not let in."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from oncebox.server.application import allowed_hosts
from oncebox.settings import HttpSettings
from tests.cli.services import Services
from tests.mcp.agents import Agent
from tests.mcp.conftest import House
from tests.torture.processes import ROOT, Children, until

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
#: stands where Python looks first, and hides the package of the protocol
HIDDEN = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in {"mcp", "mcp_types"}:
            return None
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""


@pytest.fixture
def door(house: House, key: str) -> Iterator[httpx2.Client]:
    """Somebody with a key who speaks HTTP by hand."""
    headers = {**ACCEPT, "Authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=house.url, headers=headers, timeout=60) as client:
        yield client


def _call(tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def test_a_request_stands_alone_and_is_answered_in_json(door: httpx2.Client) -> None:
    answer = door.post("/mcp", json=LIST)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert "mcp-session-id" not in answer.headers
    assert len(answer.json()["result"]["tools"]) == 11


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8808", "127.0.0.1.evil.example", "localhost.", "", "2130706433"],
)
def test_a_name_that_points_here_is_not_enough(door: httpx2.Client, host: str) -> None:
    """A page of somebody else may have its own name point to this machine."""
    answer = door.post("/mcp", json=LIST, headers={"Host": host})

    assert (answer.status_code, answer.json()["code"]) == (421, "host_refused")
    assert "ONCEBOX_HTTP__HOSTS" in answer.json()["detail"]


@pytest.mark.parametrize("host", ["a@localhost", "[::1", "127.0.0.1:80:80", "localhost/x"])
def test_host_that_is_no_host_name_is_malformed(door: httpx2.Client, host: str) -> None:
    answer = door.post("/mcp", json=LIST, headers={"Host": host})

    assert (answer.status_code, answer.json()["code"]) == (400, "request_malformed")


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1", "[::1]:8808", "LOCALHOST"])
def test_the_names_of_this_machine_are_let_in(door: httpx2.Client, host: str) -> None:
    assert door.post("/mcp", json=LIST, headers={"Host": host}).status_code == 200


def test_a_service_knows_its_own_names_and_nothing_is_not_one() -> None:
    settings = HttpSettings(
        host="", public_url="https://Hooks.example.com/base", hosts="box:8808, ,[2001:db8::1], a b"
    )

    assert allowed_hosts(settings) - {"127.0.0.1", "localhost", "::1"} == {
        "hooks.example.com",
        "box",
        "2001:db8::1",
        "a b",
    }
    assert "10.0.0.7" in allowed_hosts(HttpSettings(host="10.0.0.7"))


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost.evil.example", "file://", "localhost",
     "http://127.0.0.1@evil.example", "http://localhost:x"],
)  # fmt: skip
def test_a_page_of_somebody_else_is_not_let_in(door: httpx2.Client, origin: str) -> None:
    answer = door.post("/mcp", json=LIST, headers={"Origin": origin})

    assert (answer.status_code, answer.json()["code"]) == (403, "origin_refused")
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_this_machine_is_let_in(door: httpx2.Client) -> None:
    answer = door.post("/mcp", json=LIST, headers={"Origin": "http://localhost:6274"})

    assert answer.status_code == 200


@pytest.mark.parametrize("token", ["", "Bearer obx_wrong", "Basic {key}", "Bearer {key}x"])
def test_without_a_right_token_nothing_is_told(house: House, key: str, token: str) -> None:
    headers = {**ACCEPT, "Authorization": token.format(key=key)} if token else ACCEPT
    with httpx2.Client(base_url=house.url, headers=headers, timeout=60) as client:
        answer = client.post(f"/mcp?key={key}&access_token={key}", json=LIST)

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_there_is_nothing_to_get(door: httpx2.Client, method: str) -> None:
    answer = door.request(method, "/mcp")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_body_over_the_limit_is_refused_by_the_guard(door: httpx2.Client) -> None:
    answer = door.post("/mcp", json=_call("open_inbox", attempt_id="x" * 2_000_000))

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 50_000, b'{"id":1}'])
def test_a_body_that_is_no_request_is_an_error_and_no_more(
    door: httpx2.Client, body: bytes
) -> None:
    answer = door.post("/mcp", content=body, headers={"Content-Type": "application/json"})

    assert 400 <= answer.status_code < 500
    assert door.post("/mcp", json=LIST).status_code == 200


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_who_goes_away_leaves_no_wait_behind(
    house: House, door: httpx2.Client, version: str
) -> None:
    made = door.post("/mcp", json=_call("open_inbox", attempt_id=house.name())).json()
    inbox = made["result"]["structuredContent"]["inbox_id"]
    request = _call("wait_for_code", inbox_id=inbox, within=55)
    headers = {**ACCEPT, "MCP-Protocol-Version": version}
    if version == "2026-07-28":
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "wait_for_code"}
        request["params"]["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body = json.dumps(request).encode()
    host, _, port = house.url.removeprefix("http://").partition(":")
    head = {**headers, "Host": host, "Content-Length": str(len(body))}
    head |= {"Authorization": door.headers["authorization"], "Content-Type": "application/json"}
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    with socket.create_connection((host, int(port)), timeout=60) as line:
        line.sendall("\r\n".join(lines).encode() + body)
        _await_waits(house, 1)
    _await_waits(house, 0)


def _await_waits(house: House, count: int) -> None:
    """Return when so many wait for mail, and nobody but them and us is being served."""
    wanted = {f"oncebox_waits_open {float(count)}", f"oncebox_http_in_flight {float(count + 1)}"}
    for _ in until(30):
        if wanted <= set(house.service.get("/metrics")[1].decode().splitlines()):
            return
    pytest.fail(f"{count} should be waiting")


def test_a_client_that_dies_leaves_no_process_no_wait_and_no_words(
    house: House, key: str, by_http: Agent
) -> None:
    inbox = by_http.get("open_inbox", attempt_id=house.name())["inbox_id"]
    wait = _call("wait_for_code", inbox_id=inbox, within=55)
    wait["params"]["_meta"] = {"progressToken": 1}
    with subprocess.Popen(
        [sys.executable, "-m", "oncebox", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"ONCEBOX_URL": house.url, "ONCEBOX_API_KEY": key, "PATH": "/usr/bin:/bin"},
    ) as tools:
        assert tools.stdin is not None
        assert tools.stdout is not None
        assert tools.stderr is not None
        for message in (HELLO, wait):
            tools.stdin.write(json.dumps(message).encode() + b"\n")
            tools.stdin.flush()
            said = tools.stdout.readline()
        tools.stdout.close()
        tools.stdin.close()
        words = tools.stderr.read()

    assert b"notifications/progress" in said
    assert (tools.returncode, words) == (0, b"")
    _await_waits(house, 0)


def test_a_service_that_stops_keeps_nobody_waiting(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        services = Services(tmp_path, children)
        services.set("ONCEBOX_HTTP__HOSTS", "box.internal, other.internal")
        services.set("ONCEBOX_HTTP__STOP_WITHIN", "60")
        services.set("ONCEBOX_WORKER__WATCHDOG", "30")
        service = services.serve()
        house = House(services, service, tmp_path)
        with house.http(house.key("agent")) as agent:
            inbox = agent.get("open_inbox", attempt_id="a")["inbox_id"]
            waiting = agent.begin("wait_for_code", inbox_id=inbox, within=55)
            with service.client() as client:
                answer = client.post("/mcp", json=LIST, headers={**ACCEPT, "Host": "box.internal"})
            _await_waits(house, 1)
            service.child.terminate()
            told = waiting.result(40)
            assert service.child.wait(timeout=40) == 0

    assert answer.status_code == 200  # a name that was set
    assert told.is_error
    assert "server_busy" in told.content[0].model_dump_json()
    assert "exactly the same arguments" in told.content[0].model_dump_json()


def test_without_the_extra_all_else_works_and_the_remedy_is_named(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(HIDDEN)
    with Children(tmp_path) as children:
        services = Services(tmp_path, children)
        services.set("PYTHONPATH", str(hidden))
        service = services.serve()
        with service.client() as client:
            answer = client.post("/mcp", json=LIST, headers=ACCEPT)
            inboxes = client.get("/v1/inboxes")
    done = subprocess.run(
        [sys.executable, "-m", "oncebox", "mcp"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(hidden), "ONCEBOX_API_KEY": "obx_x", "PATH": "/usr/bin:/bin"},
        timeout=90,
    )

    assert inboxes.status_code == 200
    assert (answer.status_code, answer.json()["code"]) == (501, "extra_missing")
    assert "pip install 'oncebox[mcp]'" in answer.json()["detail"]
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'oncebox[mcp]'" in done.stderr


def test_without_a_key_the_command_says_so_and_nothing_on_stdout(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "oncebox", "mcp", "--json"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"ONCEBOX_DATA_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        timeout=90,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads(done.stderr)["error"]["code"] == "config_invalid"


def test_who_does_not_ask_for_tools_does_not_wait_for_them() -> None:
    """The package of the protocol takes longer to import than all the rest."""
    code = (
        "import sys, oncebox.cli.process.server_process, oncebox.server.application\n"
        "import oncebox.mcp.dispatch\n"
        "sys.exit(bool({'mcp', 'mcp_types', 'pydantic'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=90)
