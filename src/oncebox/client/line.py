"""The line to the service: what both clients have in common about HTTP itself."""

import ssl
from http import HTTPStatus
from math import inf

import httpx2

from oncebox.client.call import Reply
from oncebox.client.failures import DeadlinePassed, NoAnswer, ServiceUnreachable
from oncebox.credentials import Credentials
from oncebox.errors import ConfigInvalid, OnceboxError

#: seconds; the service lets go of an idle connection after ten
_IDLE = 5.0
_CONNECT = 5.0
LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=_IDLE)
#: nothing was sent when one of these came
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


def tls(url: str, given: ssl.SSLContext | None) -> ssl.SSLContext:
    """Return whom to trust: those given, else the usual authorities.

    Reading all their certificates takes a while, so where there is no TLS nobody is trusted.
    """
    if given is not None:
        return given
    if not url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx2.create_ssl_context(trust_env=False)


def headers(access: Credentials) -> dict[str, str]:
    """Return what goes with every request."""
    return {
        "authorization": f"Bearer {access.key}",
        "accept-encoding": "identity",
        "user-agent": "oncebox-client",
    }


def timeout(within: float) -> httpx2.Timeout:
    """Return how long each part of an attempt may take."""
    return httpx2.Timeout(within, connect=min(within, _CONNECT))


def patience(within: float) -> httpx2.Timeout:
    """Return how long an answer that goes on may take: whoever reads it decides that anew."""
    return httpx2.Timeout(None, connect=min(within, _CONNECT), pool=within)


def reply(response: httpx2.Response) -> Reply:
    """Return a response as the rest of the client sees it."""
    return Reply(response.status_code, response.headers, response.content)


def goes_on(response: httpx2.Response) -> bool:
    """Say whether an answer is a stream."""
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return response.status_code == HTTPStatus.OK and media == "text/event-stream"


def broken(error: Exception, url: str, within: float) -> OnceboxError:
    """Return what it means that a request got no response."""
    if _is_untrusted(error):
        return ConfigInvalid(f"the certificate of {url} is not trusted; mend it, or the address")
    sent = not isinstance(error, _NOT_SENT)
    return _unheard(error, url, within, sent=sent)


def _unheard(error: Exception, url: str, within: float, *, sent: bool) -> NoAnswer:
    connecting = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
    if connecting:
        message = f"no connection to {url}; is the service running there?"
        return ServiceUnreachable(message, sent=False)
    if isinstance(error, (httpx2.TimeoutException, TimeoutError)):
        return DeadlinePassed(f"{url} did not answer within {within:.1f} s", sent=sent)
    return ServiceUnreachable(f"the connection to {url} broke before its answer", sent=sent)


def _is_untrusted(error: BaseException) -> bool:
    """Look for a certificate behind an error; trying again would not make it better."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def checked(seconds: float) -> float:
    """Return a deadline that can be kept.

    Raises: ConfigInvalid.
    """
    if not 0 < seconds < inf:
        message = f"a deadline is a number of seconds above zero, not {seconds}"
        raise ConfigInvalid(message)
    return seconds
