"""HTTP requests of mailbox readers: one provider's hosts, no redirects, bounded in bytes and time.

The operator names the server, so it may have a private address. Links inside its answers must stay
on its origin, or on hosts that the provider or the operator names. Answers are never logged.
"""

import asyncio
import base64
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

import httpcore2
import msgspec

from oncebox.core import clock
from oncebox.core.clock import Clock
from oncebox.core.connecting import NETWORK_ERROR_CODES, client_tls, is_host, is_loopback
from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.reader import MailboxFailure

T = TypeVar("T")

#: bytes of an answer that is no mail
MAX_JSON_BYTES = 4 * 1024 * 1024
#: bytes of the body of an error
_MAX_ERROR_BYTES = 65_536
_MAX_LINK_LENGTH = 16_384
#: a slower server is given up
_BYTES_PER_SECOND = 32_768
_MAX_RETRY_AFTER = 86_400.0
_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")
_LINK = re.compile(r"[!-~]+")
_SECRET = re.compile(r"[!-~](?:[ -~]{0,8190}[!-~])?")
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _GONE, _TOO_MANY = 401, 403, 404, 410, 429
#: failures that last until somebody changes the configuration
_LASTING = frozenset({"certificate_refused"})


class AccessTokenSource(Protocol):
    """Access tokens of one account."""

    async def get(self) -> str:
        """Return a token that is valid for a while.

        Raises: MailboxFailure.
        """
        ...

    def discard(self, token: str) -> None:
        """Forget a token that a server refused."""
        ...


class Credentials:
    """What a request is authorized by: a header, or access tokens."""

    def __init__(
        self, header: tuple[str, str] | None = None, tokens: AccessTokenSource | None = None
    ) -> None:
        self._header = header
        self._tokens = tokens
        self._token = ""

    def __repr__(self) -> str:
        return "Credentials()"

    @classmethod
    def basic(cls, username: str, password: str) -> "Credentials":
        """Return those of a user name and a password."""
        encoded = base64.b64encode(f"{username}:{password}".encode()).decode()
        return cls(("authorization", f"Basic {encoded}"))

    @classmethod
    def bearer(cls, token: str) -> "Credentials":
        """Return those of a token that never changes."""
        return cls(("authorization", f"Bearer {token}"))

    @classmethod
    def oauth(cls, tokens: AccessTokenSource | None, fixed: str, provider: str) -> "Credentials":
        """Return those of a source of tokens, or else of one token that never changes.

        Raises: ConfigInvalid.
        """
        if tokens is None and not fixed:
            raise ConfigInvalid(f"{provider} needs a source of access tokens")
        return cls.bearer(fixed) if tokens is None else cls(tokens=tokens)

    async def headers(self) -> dict[str, str]:
        """Return the header fields of a request."""
        if self._tokens is not None:
            self._token = await self._tokens.get()
            return {"authorization": f"Bearer {self._token}"}
        return dict([self._header] if self._header else [])

    def renew(self) -> bool:
        """Forget the token that was refused; tell whether another can be had."""
        if self._tokens is not None and self._token:
            self._tokens.discard(self._token)
        return self._tokens is not None


class ApiAnswer(msgspec.Struct, frozen=True):
    """An answer with a status other than a redirect."""

    status: int
    #: by lower-case names; the last of each
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"ApiAnswer({self.status}, {len(self.body)} bytes)"

    @property
    def is_ok(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300  # noqa: PLR2004 - the class of success

    @property
    def is_gone(self) -> bool:
        """Whether what was asked for does not exist."""
        return self.status in {_NOT_FOUND, _GONE}

    @property
    def date(self) -> int | None:
        """The server's clock in milliseconds, where it says so."""
        return _parse_http_date(self.headers.get("date", ""))


class AnswerTooLarge(MailboxFailure):
    """An answer has more bytes than allowed."""

    def __init__(self, reply: int) -> None:
        super().__init__("answer_too_large", reply=reply)


class ApiClient:
    """Sends requests to one server over kept connections."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        hosts: tuple[str, ...] = (),
        ca: str = "",
        tls: ssl.SSLContext | None = None,
        now: Clock = clock.system,
    ) -> None:
        """Configure only; ``hosts`` may appear in links beside the origin of ``url``."""
        self.url = url
        self.within = 30.0
        self._credentials = credentials
        self._origin = _origin(urlsplit(url))
        self._hosts = hosts
        self._now = now
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls or client_tls(ca), max_connections=4, http2=False, retries=0
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    def link(self, link: str) -> str:
        """Return a link of an answer as an absolute URL.

        Raises: MailboxFailure: ``link_refused``.
        """
        try:
            found = urljoin(self.url, link)
            parts = urlsplit(found)
            allowed = _origin(parts) == self._origin or self._is_named_host(parts)
        except ValueError:
            allowed = False
        if not allowed or len(link) > _MAX_LINK_LENGTH or not _LINK.fullmatch(link):
            raise MailboxFailure("link_refused", needs_operator=True)
        return found

    def _is_named_host(self, parts: SplitResult) -> bool:
        if parts.scheme != "https" or parts.port not in {None, 443} or "@" in parts.netloc:
            return False
        host = parts.hostname or ""
        return any(
            host == each or (each.startswith("*.") and host.endswith(each[1:]))
            for each in self._hosts
        )

    async def exchange(
        self,
        method: str,
        url: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        most: int = MAX_JSON_BYTES,
        authorized: bool = True,
    ) -> ApiAnswer:
        """Return the answer to a request; a refused access token is replaced once.

        Raises: MailboxFailure, AnswerTooLarge.
        """
        url = self.link(url)
        answer = await self._send(method, url, body, headers or {}, most, authorized)
        if answer.status == _UNAUTHORIZED and authorized and self._credentials.renew():
            answer = await self._send(method, url, body, headers or {}, most, authorized)
        return answer

    async def get_json(self, url: str, kind: type[T], **options: Any) -> T:
        """Return the decoded JSON of a successful answer.

        Raises: MailboxFailure.
        """
        return self.decode(await self.exchange("GET", url, **options), kind)

    def decode(self, answer: ApiAnswer, kind: type[T]) -> T:
        """Return the decoded JSON of a successful answer.

        Raises: MailboxFailure: also that of an error, and ``answer_invalid``.
        """
        return decode_json(self.accepted(answer), kind)

    def accepted(self, answer: ApiAnswer) -> ApiAnswer:
        """Return a successful answer.

        Raises: MailboxFailure.
        """
        if not answer.is_ok:
            raise self.failure(answer)
        return answer

    def failure(self, answer: ApiAnswer) -> MailboxFailure:
        """Return the failure that the status of an answer means."""
        status = answer.status
        code, lasts = _STATUS_CODES.get(status, ("", False))
        if not code:
            code, lasts = ("server_error", False) if status >= 500 else ("request_refused", True)  # noqa: PLR2004
        return MailboxFailure(
            code, retry_after=self.retry_after(answer), needs_operator=lasts, reply=status
        )

    def retry_after(self, answer: ApiAnswer, header: str = "retry-after") -> float | None:
        """Return the seconds after which a server wants to be asked again: a number or a date."""
        said = answer.headers.get(header, "").strip()
        here = answer.date or self._now()
        if _SECONDS.fullmatch(said):
            seconds = float(said)
            if seconds > 1_000_000_000:  # noqa: PLR2004 - some name the time, in seconds since 1970
                seconds -= here / 1000
        else:
            at = _parse_http_date(said)
            if at is None:
                return None
            seconds = (at - here) / 1000
        return min(max(seconds, 0.0), _MAX_RETRY_AFTER)

    async def _send(
        self,
        method: str,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        most: int,
        authorized: bool,  # noqa: FBT001 - of `exchange`
    ) -> ApiAnswer:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.within) as limit:
                started = loop.time()
                async with self.open(method, url, body, headers, authorized=authorized) as answer:
                    named = named_headers(answer)
                    is_ok = 200 <= answer.status < 300  # noqa: PLR2004 - the class of success
                    if is_ok and _declared_length(named) > most:
                        raise AnswerTooLarge(answer.status)
                    received = bytearray()
                    async for piece in answer.aiter_stream():
                        received += piece
                        if is_ok and len(received) > most:
                            raise AnswerTooLarge(answer.status)
                        if not is_ok and len(received) > _MAX_ERROR_BYTES:
                            break
                        if not limit.expired():
                            limit.reschedule(
                                started + self.within + len(received) / _BYTES_PER_SECOND
                            )
        except (TimeoutError, OSError, *_HTTP_ERRORS) as error:
            raise network_failure(error) from None
        if named.get("content-encoding", "identity") != "identity":
            raise MailboxFailure("answer_invalid", reply=answer.status)
        return ApiAnswer(answer.status, named, bytes(received))

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        authorized: bool = True,
    ) -> AsyncIterator[httpcore2.Response]:
        """Send a request and yield the answer as it comes; the caller limits time and bytes.

        Raises: MailboxFailure: ``redirected`` among them; and errors of httpcore2.
        """
        fields = {
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "oncebox",
            **(await self._credentials.headers() if authorized else {}),
            **(headers or {}),
        }
        async with self._pool.stream(
            method, url, headers=list(fields.items()), content=body or None
        ) as answer:
            if 300 <= answer.status < 400:  # noqa: PLR2004 - the class of redirects
                raise MailboxFailure("redirected", needs_operator=True, reply=answer.status)
            yield answer


#: the codes of statuses, and whether they last until the configuration changes
_STATUS_CODES = {
    _UNAUTHORIZED: ("login_refused", True),
    _FORBIDDEN: ("login_refused", True),
    _NOT_FOUND: ("not_found", True),
    _GONE: ("not_found", True),
    408: ("timed_out", False),
    425: ("server_error", False),
    _TOO_MANY: ("throttled", False),
}

_HTTP_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)


def network_failure(error: BaseException) -> MailboxFailure:
    """Return the failure of an error of the network."""
    cause: BaseException | None = error
    while cause is not None:
        for kind, code in NETWORK_ERROR_CODES:
            if isinstance(cause, kind):
                return MailboxFailure(code, needs_operator=code in _LASTING)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, TimeoutError | httpcore2.TimeoutException):
        return MailboxFailure("timed_out")
    if isinstance(error, httpcore2.ConnectError):
        return MailboxFailure("connect_failed")
    return MailboxFailure("server_closed")


def decode_json(answer: ApiAnswer, kind: type[T]) -> T:
    """Return the decoded JSON of an answer.

    Raises: MailboxFailure: ``answer_invalid``.
    """
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # The decoder's message may quote a mail.
        raise MailboxFailure("answer_invalid", reply=answer.status) from None


def mail_bytes(answer: ApiAnswer) -> bytes:
    """Return the mail that an answer is.

    Raises: MailboxFailure: ``answer_invalid`` for a web page or JSON.
    """
    begins = answer.body[:64].lstrip().lower()
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_other = kind in {"text/html", "application/json"}
    if not begins or is_other or begins.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise MailboxFailure("answer_invalid", reply=answer.status)
    return answer.body


def named_headers(answer: httpcore2.Response) -> dict[str, str]:
    """Return the header fields of an answer by their lower-case names."""
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers
    }


def check_api_url(url: str, *, has_secret: bool, example: str) -> None:
    """Check the URL of a server; a secret is never sent in the clear.

    Raises: ConfigInvalid.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
        host = parts.hostname or ""
    except ValueError:
        raise ConfigInvalid(f"the URL is invalid; write one such as {example}") from None
    more = parts.query or parts.fragment or "@" in parts.netloc
    if (
        parts.scheme not in {"http", "https"}
        or not is_host(host)
        or more
        or not _LINK.fullmatch(url)
    ):
        raise ConfigInvalid(f"the URL is invalid; write one such as {example}")
    if parts.scheme == "http" and has_secret and not is_loopback(host):
        raise ConfigInvalid("a key or password is never sent without TLS; use https://")


def check_secret(name: str, text: str, *, required: bool = True) -> None:
    """Check a key or password that becomes part of a header.

    Raises: ConfigInvalid.
    """
    if (required or text) and not _SECRET.fullmatch(text):
        raise ConfigInvalid(f"the {name} is missing or has characters that no {name} has")


def check_hosts(hosts: tuple[str, ...]) -> None:
    """Check the hosts that links may name.

    Raises: ConfigInvalid.
    """
    if any(not is_host(each.removeprefix("*.")) or "/" in each or ":" in each for each in hosts):
        raise ConfigInvalid("hosts are names such as files.example.com or *.example.com")


def host_of(url: str) -> str:
    """Return the host of a checked URL, with its port unless it is the usual one."""
    return urlsplit(url).netloc


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    if "@" in parts.netloc or parts.scheme not in {"http", "https"}:
        raise ValueError
    return (
        parts.scheme,
        parts.hostname or "",
        parts.port or (443 if parts.scheme == "https" else 80),
    )


def _declared_length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0  # noqa: PLR2004


def _parse_http_date(text: str) -> int | None:
    try:
        return round(parsedate_to_datetime(text).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
