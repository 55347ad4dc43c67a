"""Access tokens: fetched once for all callers, never shown, and every bad source has a code."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from oncebox.errors import ConfigInvalid, StoreUnavailable
from oncebox.mailboxes.access_tokens import (
    AccessTokens,
    TokenCommand,
    TokenSource,
    TokenUrl,
    check_token_source,
)
from oncebox.mailboxes.reader import MailboxFailure
from tests.support.http import until


class Watch:
    """A steady clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Endpoint:
    """A token endpoint that answers as told."""

    port: int = 0
    status: int = 200
    body: bytes = b'{"access_token": "token-1", "expires_in": 3600}'
    headers: str = ""
    requests: list[dict[str, list[str]]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = int(head.lower().partition("content-length: ")[2].split()[0])
        self.requests.append(parse_qs((await reader.readexactly(size)).decode()))
        writer.write(
            f"HTTP/1.1 {self.status} X\r\ncontent-length: {len(self.body)}\r\n"
            f"{self.headers}\r\n".encode()
            + self.body
        )
        writer.close()

    def source(self) -> TokenUrl:
        return TokenUrl(
            url=f"http://127.0.0.1:{self.port}/token", client_id="app", client_secret="app-secret",
            refresh_token="refresh-1", within=5.0,
        )  # fmt: skip


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """A token endpoint on this machine."""
    made = Endpoint()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


@asynccontextmanager
async def tokens_of(source: TokenSource, watch: Watch | None = None) -> AsyncIterator[AccessTokens]:
    tokens = AccessTokens(source, steady=watch or Watch())
    try:
        yield tokens
    finally:
        await tokens.close()


async def failure_of(source: TokenSource) -> MailboxFailure:
    async with tokens_of(source) as tokens:
        with pytest.raises(MailboxFailure) as failed:
            await tokens.get()
    return failed.value


def script(tmp_path: Path, text: str) -> TokenCommand:
    """Return a command that is a Python program."""
    (tmp_path / "token.py").write_text(text)
    return TokenCommand(words=(sys.executable, str(tmp_path / "token.py")), within=20)


async def test_callers_at_once_share_one_refresh_and_the_token_is_kept(endpoint: Endpoint) -> None:
    watch = Watch()
    async with tokens_of(endpoint.source(), watch) as tokens:
        found = await asyncio.gather(*(tokens.get() for _ in range(20)))
        watch.now += 3600 - 121
        found.append(await tokens.get())
        kept = len(endpoint.requests)
        watch.now += 2
        endpoint.body = b'{"access_token": "token-2"}'
        renewed = await tokens.get()

    assert set(found) == {"token-1"}
    assert (kept, renewed, len(endpoint.requests)) == (1, "token-2", 2)
    assert endpoint.requests[0] == {
        "grant_type": ["refresh_token"], "client_id": ["app"], "client_secret": ["app-secret"],
        "refresh_token": ["refresh-1"],
    }  # fmt: skip


async def test_a_caller_that_is_cancelled_cancels_no_other(tmp_path: Path) -> None:
    async with tokens_of(script(tmp_path, "print('token-1')")) as tokens:
        first, second = (asyncio.ensure_future(tokens.get()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()

        assert await second == "token-1"


async def test_a_refused_token_is_fetched_anew_and_a_newer_one_stays(endpoint: Endpoint) -> None:
    async with tokens_of(endpoint.source()) as tokens:
        old = await tokens.get()
        endpoint.body = b'{"access_token": "token-2", "expires_in": "3600"}'
        tokens.discard(old)
        new = await tokens.get()
        tokens.discard(old)

        assert [old, new, await tokens.get()] == ["token-1", "token-2", "token-2"]


async def test_a_new_refresh_token_is_used_and_reported(endpoint: Endpoint) -> None:
    told: list[str] = []
    endpoint.body = b'{"access_token": "t", "expires_in": 10, "refresh_token": "refresh-2"}'
    watch = Watch()

    async def keep(refresh_token: str) -> None:
        told.append(refresh_token)

    tokens = AccessTokens(endpoint.source(), steady=watch, on_new_refresh_token=keep)
    await tokens.get()
    watch.now += 60
    await tokens.get()
    await tokens.close()

    assert told == ["refresh-2"]
    assert [each["refresh_token"] for each in endpoint.requests] == [["refresh-1"], ["refresh-2"]]


async def test_an_access_token_is_not_used_before_the_new_refresh_token_is_stored(
    endpoint: Endpoint,
) -> None:
    endpoint.body = b'{"access_token": "t", "refresh_token": "refresh-2"}'
    stored: list[str] = []

    async def keep(refresh_token: str) -> None:
        stored.append(refresh_token)
        if len(stored) == 1:
            raise StoreUnavailable

    tokens = AccessTokens(endpoint.source(), steady=Watch(), on_new_refresh_token=keep)
    with pytest.raises(StoreUnavailable):
        await tokens.get()
    assert await tokens.get() == "t"
    await tokens.close()

    assert stored == ["refresh-2"] * 2
    assert endpoint.requests[-1]["refresh_token"] == ["refresh-2"]


async def test_a_refresh_that_has_begun_is_stored_though_its_tokens_are_closed(
    endpoint: Endpoint,
) -> None:
    endpoint.body = b'{"access_token": "t", "refresh_token": "refresh-2"}'
    stored: list[str] = []

    async def keep(refresh_token: str) -> None:
        stored.append(refresh_token)

    tokens = AccessTokens(endpoint.source(), steady=Watch(), on_new_refresh_token=keep)
    caller = asyncio.ensure_future(tokens.get())
    await asyncio.sleep(0)
    caller.cancel()
    await tokens.close()

    assert stored == ["refresh-2"]


@pytest.mark.parametrize(
    ("status", "body", "code", "needs_operator"),
    [
        (400, b'{"error": "invalid_grant"}', "token_refused", True),
        (401, b"<html>", "token_refused", True),
        (400, b'{"error": "temporarily_unavailable"}', "token_unavailable", False),
        (429, b"", "throttled", False), (500, b"", "token_unavailable", False),
        (302, b"", "token_unavailable", False), (200, b"<html>", "token_invalid", False),
        (200, b'{"access_token": ""}', "token_invalid", False),
        (200, b'{"access_token": "two\\r\\nlines"}', "token_invalid", False),
        (200, b'{"access_token": 5}', "token_invalid", False),
        (200, b" " * 100_000, "token_unavailable", False),
    ],
)  # fmt: skip
async def test_every_answer_of_an_endpoint_has_a_code(
    endpoint: Endpoint, status: int, body: bytes, code: str, needs_operator: bool
) -> None:
    endpoint.status, endpoint.body, endpoint.headers = status, body, "retry-after: 7\r\n"
    failed = await failure_of(endpoint.source())

    assert (failed.code, failed.needs_operator) == (code, needs_operator)
    assert failed.retry_after == (7.0 if status in {429, 500, 302} else failed.retry_after)


async def test_a_command_prints_a_token_or_json(tmp_path: Path) -> None:
    answer = json.dumps({"access_token": "token-2", "expires_in": 60})
    for text, token in (("print('token-1')", "token-1"), (f"print('''{answer}''')", "token-2")):
        async with tokens_of(script(tmp_path, text)) as tokens:
            assert await tokens.get() == token


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import sys; sys.exit('hunter2')", "token_command_failed"), ("", "token_invalid"),
        ("print('a b')", "token_invalid"), ("print('{')", "token_invalid"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "token_invalid"),
        ("while True: print('x' * 1000)", "token_invalid"),
    ],
)  # fmt: skip
async def test_a_command_that_gives_no_token_has_a_code_and_is_not_quoted(
    tmp_path: Path, text: str, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    failed = await failure_of(script(tmp_path, text))

    assert failed.code == code
    assert failed.__cause__ is None
    assert "hunter2" not in f"{failed!r} {caplog.text}"


async def test_a_command_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    text = (
        "import os, subprocess, time\n"
        f"child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    command = script(tmp_path, text)
    source = TokenCommand(words=command.words, within=1.5)

    assert (await failure_of(source)).code == "token_command_timed_out"
    pid = (tmp_path / "pid").read_text()
    await until(lambda: not _runs(pid))


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


async def test_a_command_that_is_missing_needs_the_operator() -> None:
    failed = await failure_of(TokenCommand(words=("/nowhere/token",)))

    assert (failed.code, failed.needs_operator) == ("token_command_missing", True)


async def test_a_command_gets_no_secrets_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_MASTER_KEY", "master")
    text = (
        "import os\nprint('leaked' if any(n.startswith('ONCEBOX') for n in os.environ) else 'ok')"
    )
    async with tokens_of(script(tmp_path, text)) as tokens:
        assert await tokens.get() == "ok"


async def test_an_address_inside_the_network_is_no_token_endpoint() -> None:
    source = TokenUrl(url="https://127.0.0.1/token", client_id="a", refresh_token="b")
    failed = await failure_of(source)

    assert (failed.code, failed.needs_operator) == ("token_url_refused", True)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/token", "ftp://example.com", "https://", "https://a:b@example.com/",
        "https://example.com:8443/token", "https://example.com:x/",
    ],
)  # fmt: skip
def test_secrets_are_never_sent_in_the_clear(url: str) -> None:
    with pytest.raises(ConfigInvalid):
        check_token_source(TokenUrl(url=url, client_id="a", refresh_token="b"))


def test_a_source_shows_no_secret() -> None:
    source = TokenUrl(
        url="https://oauth.example.com/token", client_id="a", refresh_token="r-secret",
        client_secret="c-secret",
    )  # fmt: skip
    command = TokenCommand(words=("token", "--password=w-secret"))

    assert "secret" not in f"{source!r} {command!r}"
