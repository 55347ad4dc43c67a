"""Which errors of the usual clients prove that a call did not happen."""

from oncebox.errors import NotDone

#: the connection was never made, so nothing was sent
_NEVER_CONNECTED = {
    ("httpx", "ConnectError"),
    ("httpx", "ConnectTimeout"),
    ("httpx2", "ConnectError"),
    ("httpx2", "ConnectTimeout"),
    ("requests", "ConnectTimeout"),
    ("socket", "gaierror"),
}
_HTTP_CLIENTS = {"aiohttp", "httpx", "httpx2", "requests"}
#: refusals after which the call may still be under way or done
_UNCLEAR = {408, 409, 423, 425}


def is_not_done(error: BaseException) -> bool:
    """Say whether an error proves that the call had no effect."""
    if isinstance(error, (NotDone, ConnectionRefusedError)):
        return True
    if any((_room(kind), kind.__name__) in _NEVER_CONNECTED for kind in type(error).__mro__):
        return not _is_reading(error)
    status = _status(error)
    refused = status is not None and 400 <= status < 500 and status not in _UNCLEAR  # noqa: PLR2004
    return refused and not _was_redirected(error)


def _is_reading(error: BaseException) -> bool:
    """Say whether what failed was a GET, perhaps the second half of a redirected POST."""
    try:
        request = getattr(error, "request", None)
    except RuntimeError:  # httpx, when it has none
        return False
    return getattr(request, "method", None) in {"GET", "HEAD"}


def _was_redirected(error: BaseException) -> bool:
    """Say whether an earlier answer may have been the effect, and the refusal came after it."""
    response = getattr(error, "response", None)
    return bool(getattr(response, "history", None) or getattr(error, "history", None))


def _status(error: BaseException) -> int | None:
    """Return the HTTP status an error of a known client carries."""
    if _room(type(error)) not in _HTTP_CLIENTS:
        return None
    response = getattr(error, "response", None)
    for holder, name in ((response, "status_code"), (error, "status"), (error, "code")):
        found = getattr(holder, name, None)
        if isinstance(found, int):
            return found
    return None


def _room(kind: type) -> str:
    return kind.__module__.split(".", 1)[0]
