"""Reach the service: find its URL and API key, TLS, headers, timeouts, connection errors."""

import os
import ssl
import tomllib
from collections.abc import Mapping
from http import HTTPStatus
from math import inf
from pathlib import Path
from typing import NamedTuple

import httpx2
import platformdirs

from oncebox.client.errors import DeadlinePassed, ServiceUnreachable
from oncebox.core import credentials
from oncebox.core.credentials import Credentials
from oncebox.errors import ConfigInvalid, OnceboxError

#: where ``oncebox serve`` listens by default
_DEFAULT_URL = "http://127.0.0.1:8808"
_BAD_URL = "the address of the service must look like https://oncebox.example.com"
#: seconds
CONNECT_TIMEOUT = 5.0
#: idle connections are closed after 5 seconds, before the service closes them after ten
POOL_LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=5.0)


class ConnectionSettings(NamedTuple):
    """The settings of an HTTP client for the service."""

    url: str
    #: of every request; they contain the API key
    headers: dict[str, str]
    tls: ssl.SSLContext


def connection_settings(
    url: str | None, key: str | None, tls: ssl.SSLContext | None, timeout: float
) -> ConnectionSettings:
    """Return the settings of an HTTP client for the service that ``find`` finds."""
    check_timeout(timeout)
    found = find(url, key)
    headers = {
        "authorization": f"Bearer {found.key}",
        "accept-encoding": "identity",
        "user-agent": "oncebox-client",
    }
    if tls is None:
        # Loading the usual authorities takes a while, so plain HTTP gets an empty context.
        is_https = found.url.startswith("https:")
        tls = (
            httpx2.create_ssl_context(trust_env=False)
            if is_https
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
    return ConnectionSettings(found.url, headers, tls)


def find(url: str | None, key: str | None, environ: Mapping[str, str] | None = None) -> Credentials:
    """Return the URL and the API key of the service.

    Missing arguments come from ``ONCEBOX_URL`` and ``ONCEBOX_API_KEY`` or
    ``ONCEBOX_API_KEY_FILE``, else from the credentials file that ``oncebox serve`` writes. The
    key in that file is sent only to the address in that file.
    """
    environ = os.environ if environ is None else environ
    url = url or environ.get("ONCEBOX_URL") or None
    key = (
        key or environ.get("ONCEBOX_API_KEY") or _key_from_file(environ.get("ONCEBOX_API_KEY_FILE"))
    )
    if url is None or key is None:
        stored = credentials.read(_data_folder(environ))
        if stored and key is None and (url or stored.url).rstrip("/") == stored.url.rstrip("/"):
            key = stored.key
        url = url or (stored.url if stored is not None else _DEFAULT_URL)
    if key is None:
        raise ConfigInvalid(
            "no API key: set ONCEBOX_API_KEY or ONCEBOX_API_KEY_FILE, or run this as the user "
            "and on the machine of: oncebox serve"
        )
    return Credentials(url=_checked_url(url), key=_checked_key(key))


def _key_from_file(name: str | None) -> str | None:
    if not name:
        return None
    try:
        return Path(name).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigInvalid(
            f"the file that ONCEBOX_API_KEY_FILE names cannot be read: {name}"
        ) from error


def _data_folder(environ: Mapping[str, str]) -> Path:
    """Return the data folder of ``oncebox serve``, found as it finds it."""
    named = environ.get("ONCEBOX_DATA_DIR") or _configured_data_folder(
        environ.get("ONCEBOX_CONFIG")
    )
    return Path(named or platformdirs.user_data_dir("oncebox")).absolute()


def _configured_data_folder(named: str | None) -> str | None:
    try:
        found = tomllib.loads(Path(named or "oncebox.toml").read_text("utf-8")).get("data_dir")
    except (OSError, ValueError):  # the service reports errors of its settings
        return None
    return found if isinstance(found, str) else None


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
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        message = f"no connection to {url}; is the service running there?"
        return ServiceUnreachable(message, sent=False)
    sent = not isinstance(error, httpx2.PoolTimeout)
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
    """Return the deadline if it is a positive number of seconds."""
    if not 0 < seconds < inf:
        raise ConfigInvalid(f"a deadline is a number of seconds above zero, not {seconds}")
    return seconds
