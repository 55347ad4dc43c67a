"""OAuth access tokens: from a command or a token endpoint, cached, refreshed once for all callers.

Tokens, secrets and what a command writes are never logged and never part of an exception.
"""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated
from urllib.parse import urlencode, urlsplit

import msgspec

from oncebox.core import clock
from oncebox.core.connecting import is_loopback
from oncebox.core.egress import Egress, EgressResponse
from oncebox.errors import ConfigInvalid, EgressFailed, EgressRefused
from oncebox.mailboxes.reader import MailboxFailure

#: seconds before its end from which a token is no longer used
_MARGIN = 120.0
#: seconds of a token whose answer does not say
_DEFAULT_LIFETIME = 900.0
_MAX_ANSWER_BYTES = 65_536
#: seconds in which the output of a killed command ends
_END_WITHIN = 1.0
#: seconds that a refresh may go on when its tokens are closed: it may bring a new refresh token
_CLOSE_WITHIN = 2.0
_TOKEN = re.compile(r"[!-~]{1,16384}")
_OK = 200
_BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _TOO_MANY = 400, 401, 403, 429


class TokenCommand(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="command"
):
    """A program of the operator's that prints an access token, or JSON with ``access_token``.

    It runs as the service, so this kind is configured on the machine, never through the API.
    """

    #: the program and its arguments; there is no shell
    words: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=100)]
    #: seconds
    within: Annotated[float, msgspec.Meta(gt=0, le=300)] = 30.0

    def __repr__(self) -> str:
        return "TokenCommand()"


class TokenUrl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="url"):
    """A token endpoint (RFC 6749, section 6)."""

    url: str
    client_id: str
    refresh_token: str
    client_secret: str = ""
    scope: str = ""
    #: seconds
    within: Annotated[float, msgspec.Meta(gt=0, le=300)] = 30.0

    def __repr__(self) -> str:
        return f"TokenUrl({urlsplit(self.url).hostname})"


TokenSource = TokenCommand | TokenUrl

#: stores a refresh token that replaced the one before; whatever it raises ends the refresh
KeepRefreshToken = Callable[[str], Awaitable[object]]


async def keep_nothing(_: str) -> None:
    """Store no refresh token."""


class _TokenAnswer(msgspec.Struct):
    access_token: str
    expires_in: float | str | None = None
    refresh_token: str | None = None


class _TokenRefusal(msgspec.Struct):
    error: str = ""


def check_token_source(source: TokenSource) -> None:
    """Check a source; secrets are never sent in the clear.

    Raises: ConfigInvalid.
    """
    if isinstance(source, TokenCommand):
        if not source.words[0] or any("\0" in word for word in source.words):
            raise ConfigInvalid("a token command needs a program, such as /usr/local/bin/token")
        return
    try:
        parts = urlsplit(source.url)
        secured = parts.scheme == "https" and parts.port in {None, 443}
        local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    except ValueError:
        secured = local = False
    if not (secured or local) or not parts.hostname or "@" in parts.netloc:
        raise ConfigInvalid(
            "the token URL is one such as https://oauth2.example.com/token, without a port"
        )


class AccessTokens:
    """Access tokens of one account."""

    def __init__(
        self,
        source: TokenSource,
        *,
        egress: Egress | None = None,
        steady: Callable[[], float] = clock.steady,
        on_new_refresh_token: KeepRefreshToken = keep_nothing,
    ) -> None:
        """Configure only; ``on_new_refresh_token`` is awaited when the endpoint replaced it.

        The access token beside it is not used before that: a refresh token may be good only once.

        Raises: ConfigInvalid.
        """
        check_token_source(source)
        self._source = source
        self._steady = steady
        self._on_new_refresh_token = on_new_refresh_token
        self._kept_token = source.refresh_token if isinstance(source, TokenUrl) else ""
        self._egress = egress
        self._owns_egress = egress is None
        self._token = ""
        self._usable_until = 0.0
        self._refresh: asyncio.Task[str] | None = None

    async def get(self) -> str:
        """Return a token that is valid for a while; concurrent callers share one refresh.

        Raises: MailboxFailure.
        """
        if self._token and self._steady() < self._usable_until:
            return self._token
        if self._refresh is None or self._refresh.done():
            self._refresh = asyncio.get_running_loop().create_task(self._renew())
            # Its callers may all be gone when it fails.
            self._refresh.add_done_callback(lambda task: task.cancelled() or task.exception())
        # One caller that is cancelled must not cancel the others.
        return await asyncio.shield(self._refresh)

    def discard(self, token: str) -> None:
        """Forget a token that a server refused; a newer one stays."""
        if token == self._token:
            self._token = ""

    async def close(self) -> None:
        """End a running refresh and close the connections."""
        if self._refresh is not None:
            if isinstance(self._source, TokenUrl):
                await asyncio.wait({self._refresh}, timeout=_CLOSE_WITHIN)
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)
        if self._owns_egress and self._egress is not None:
            await self._egress.close()

    async def _renew(self) -> str:
        if isinstance(self._source, TokenCommand):
            answer = _parse_output(await _run(self._source))
        else:
            answer = await self._post(self._source)
            await self._keep(self._source, answer.refresh_token)
        if not _TOKEN.fullmatch(answer.access_token):
            raise MailboxFailure("token_invalid")
        lifetime = _lifetime(answer)
        self._token = answer.access_token
        # A short-lived token is used for half of its time.
        self._usable_until = self._steady() + max(lifetime - _MARGIN, lifetime / 2)
        return self._token

    async def _post(self, source: TokenUrl) -> _TokenAnswer:
        if self._egress is None:
            parts = urlsplit(source.url)
            local = [f"{parts.hostname}:{parts.port or 80}"] if parts.scheme == "http" else []
            self._egress = Egress(local=local)
        body = _request_body(source)
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "content-length": str(len(body)),
        }
        try:
            async with asyncio.timeout(source.within):
                response = await self._egress.post(
                    source.url, _pieces(body), headers=headers, most=_MAX_ANSWER_BYTES
                )
        except (EgressFailed, TimeoutError):
            raise MailboxFailure("token_unavailable") from None
        except EgressRefused:
            raise MailboxFailure("token_url_refused", needs_operator=True) from None
        return _read_response(response)

    async def _keep(self, source: TokenUrl, refresh_token: str | None) -> None:
        """Use the newest refresh token from now on, and store it, also if that failed before."""
        newest = refresh_token or source.refresh_token
        self._source = msgspec.structs.replace(source, refresh_token=newest)
        if newest != self._kept_token:
            await self._on_new_refresh_token(newest)
            self._kept_token = newest


def _request_body(source: TokenUrl) -> bytes:
    fields = {
        "grant_type": "refresh_token",
        "client_id": source.client_id,
        "client_secret": source.client_secret,
        "refresh_token": source.refresh_token,
        "scope": source.scope,
    }
    return urlencode({name: value for name, value in fields.items() if value}).encode()


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _read_response(response: EgressResponse) -> _TokenAnswer:
    if response.status == _OK and response.body is not None:
        try:
            return msgspec.json.decode(response.body, type=_TokenAnswer)
        except msgspec.MsgspecError:
            raise MailboxFailure("token_invalid", reply=response.status) from None
    if response.status in {_BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN}:
        # Google names its limits with 403 and other words.
        lasts = _refusal_word(response) not in {"temporarily_unavailable", "server_error"}
        code = "token_refused" if lasts else "token_unavailable"
        raise MailboxFailure(code, needs_operator=lasts, reply=response.status)
    wait = response.headers.get("retry-after", "")
    raise MailboxFailure(
        "throttled" if response.status == _TOO_MANY else "token_unavailable",
        retry_after=float(wait) if wait.isdecimal() and len(wait) < 10 else None,  # noqa: PLR2004
        reply=response.status,
    )


def _refusal_word(response: EgressResponse) -> str:
    try:
        return msgspec.json.decode(response.body or b"{}", type=_TokenRefusal).error
    except msgspec.MsgspecError:
        return ""


def _lifetime(answer: _TokenAnswer) -> float:
    try:
        seconds = float(answer.expires_in or _DEFAULT_LIFETIME)
    except ValueError:
        return _DEFAULT_LIFETIME
    return min(max(seconds, 1.0), 86_400.0) if seconds == seconds else _DEFAULT_LIFETIME  # noqa: PLR0124 - NaN


def _parse_output(output: bytes) -> _TokenAnswer:
    """Return the token of a command: its only line, or JSON."""
    try:
        if output.lstrip().startswith(b"{"):
            return msgspec.json.decode(output, type=_TokenAnswer)
        return _TokenAnswer(output.decode().strip())
    except (msgspec.MsgspecError, UnicodeError):
        raise MailboxFailure("token_invalid") from None


async def _run(command: TokenCommand) -> bytes:
    """Return what a command prints; what it says on standard error is thrown away."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("ONCEBOX_")
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *command.words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError):
        raise MailboxFailure("token_command_missing", needs_operator=True) from None
    try:
        async with asyncio.timeout(command.within):
            output = await _read_output(process)
            status = await process.wait()
    except BaseException as error:
        await _kill(process)
        if isinstance(error, TimeoutError):
            raise MailboxFailure("token_command_timed_out") from None
        raise
    if status:
        raise MailboxFailure("token_command_failed")
    return output


async def _read_output(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    output = b""
    while piece := await process.stdout.read(_MAX_ANSWER_BYTES):
        output += piece
        if len(output) > _MAX_ANSWER_BYTES:
            raise MailboxFailure("token_invalid")
    return output


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a command with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # Its pipe is closed when it is read to the end; what it started elsewhere may hold it open.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_WITHIN):
            await process.communicate()
    await process.wait()
