"""Reach the service: find its URL and API key, TLS, headers, timeouts, connection errors."""

import os
import ssl
import tomllib
from collections.abc import Mapping
from http import HTTPStatus
from math import inf
from pathlib import Path

import httpx2
import platformdirs

from oncebox.client.core.calls import HttpReply
from oncebox.client.errors import DeadlinePassed, NoAnswer, ServiceUnreachable
from oncebox.core import credentials
from oncebox.core.credentials import Credentials
from oncebox.errors import ConfigInvalid, OnceboxError

_URL_VARIABLE = "ONCEBOX_URL"
_KEY_VARIABLE = "ONCEBOX_API_KEY"
_KEY_FILE_VARIABLE = "ONCEBOX_API_KEY_FILE"
_DATA_DIR_VARIABLE = "ONCEBOX_DATA_DIR"
_CONFIG_VARIABLE = "ONCEBOX_CONFIG"
#: where ``oncebox serve`` listens by default
_DEFAULT_URL = "http://127.0.0.1:8808"
_BAD_URL = "the address of the service must look like https://oncebox.example.com"
#: seconds; the service closes an idle connection after ten
_IDLE_TIMEOUT = 5.0
_CONNECT_TIMEOUT = 5.0
POOL_LIMITS = httpx2.Limits(
    max_connections=100, max_keepalive_connections=20, keepalive_expiry=_IDLE_TIMEOUT
)
#: errors raised before anything was sent
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


def find(url: str | None, key: str | None, environ: Mapping[str, str] | None = None) -> Credentials:
    """Return the URL and the API key of the service.

    Missing arguments come from ``ONCEBOX_URL`` and ``ONCEBOX_API_KEY`` or
    ``ONCEBOX_API_KEY_FILE``, else from the credentials file that ``oncebox serve`` writes. The
    key in that file is sent only to the address in that file.

    Raises: ConfigInvalid.
    """
    environ = os.environ if environ is None else environ
    url = url or environ.get(_URL_VARIABLE) or None
    key = key or environ.get(_KEY_VARIABLE) or _key_from_file(environ.get(_KEY_FILE_VARIABLE))
    if url is None or key is None:
        stored = credentials.read(_data_folder(environ))
        if stored is not None and key is None and (url is None or _same_url(url, stored.url)):
            key = stored.key
        url = url or (stored.url if stored is not None else _DEFAULT_URL)
    if key is None:
        raise ConfigInvalid(
            f"no API key: set {_KEY_VARIABLE} or {_KEY_FILE_VARIABLE}, or run this as the user "
            "and on the machine "
            "of: oncebox serve"
        )
    return Credentials(url=_checked_url(url), key=_checked_key(key))


def _key_from_file(name: str | None) -> str | None:
    if not name:
        return None
    try:
        return Path(name).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigInvalid(
            f"the file that {_KEY_FILE_VARIABLE} names cannot be read: {name}"
        ) from error


def _data_folder(environ: Mapping[str, str]) -> Path:
    """Return the data folder of ``oncebox serve``, found as it finds it."""
    named = environ.get(_DATA_DIR_VARIABLE) or _configured_data_folder(
        environ.get(_CONFIG_VARIABLE)
    )
    return Path(named or platformdirs.user_data_dir("oncebox")).absolute()


def _configured_data_folder(named: str | None) -> str | None:
    try:
        found = tomllib.loads(Path(named or "oncebox.toml").read_text("utf-8")).get("data_dir")
    except (OSError, ValueError):  # the service reports errors of its settings
        return None
    return found if isinstance(found, str) else None


def _same_url(url: str, other: str) -> bool:
    return url.rstrip("/") == other.rstrip("/")


def _checked_url(url: str) -> str:
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ConfigInvalid(_BAD_URL) from error
    if parts.scheme not in {"http", "https"} or not parts.host or parts.query or parts.fragment:
        raise ConfigInvalid(_BAD_URL)
    if parts.userinfo:
        raise ConfigInvalid(
            "the address must not hold a user or password; the API key is given apart"
        )
    return url.rstrip("/")


def _checked_key(key: str) -> str:
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigInvalid("the API key is not one: keys begin with obx_ and have no spaces")
    return key


def tls_context(url: str, given: ssl.SSLContext | None) -> ssl.SSLContext:
    """Return the given TLS context, else one with the usual authorities.

    Loading their certificates takes a while, so plain HTTP gets an empty context.
    """
    if given is not None:
        return given
    if not url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx2.create_ssl_context(trust_env=False)


def request_headers(access: Credentials) -> dict[str, str]:
    """Return the headers of every request."""
    return {
        "authorization": f"Bearer {access.key}",
        "accept-encoding": "identity",
        "user-agent": "oncebox-client",
    }


def request_timeout(within: float) -> httpx2.Timeout:
    """Return the timeouts of one request."""
    return httpx2.Timeout(within, connect=min(within, _CONNECT_TIMEOUT))


def stream_timeout(within: float) -> httpx2.Timeout:
    """Return the timeouts of a streamed answer: each read sets its own."""
    return httpx2.Timeout(None, connect=min(within, _CONNECT_TIMEOUT), pool=within)


def to_reply(response: httpx2.Response) -> HttpReply:
    """Return the reply without its httpx type."""
    return HttpReply(response.status_code, response.headers, response.content)


def is_stream(response: httpx2.Response) -> bool:
    """Return whether an answer is an event stream."""
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return response.status_code == HTTPStatus.OK and media == "text/event-stream"


def connection_error(error: Exception, url: str, within: float) -> OnceboxError:
    """Return the client error for a request that got no response."""
    if _is_certificate_error(error):
        return ConfigInvalid(
            f"the certificate of {url} is not trusted; fix the certificate or the address"
        )
    sent = not isinstance(error, _NOT_SENT)
    return _no_answer_error(error, url, within, sent=sent)


def _no_answer_error(error: Exception, url: str, within: float, *, sent: bool) -> NoAnswer:
    connecting = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
    if connecting:
        message = f"no connection to {url}; is the service running there?"
        return ServiceUnreachable(message, sent=False)
    if isinstance(error, (httpx2.TimeoutException, TimeoutError)):
        return DeadlinePassed(f"{url} did not answer within {within:.1f} s", sent=sent)
    return ServiceUnreachable(f"the connection to {url} broke before its answer", sent=sent)


def _is_certificate_error(error: BaseException) -> bool:
    """Return whether a certificate caused the error: a retry would not help."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def check_timeout(seconds: float) -> float:
    """Return the deadline if it is a positive number of seconds.

    Raises: ConfigInvalid.
    """
    if not 0 < seconds < inf:
        raise ConfigInvalid(f"a deadline is a number of seconds above zero, not {seconds}")
    return seconds
