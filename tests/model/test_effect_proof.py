"""Proof: which errors of the usual clients show that a call did not happen."""

import socket
import urllib.error
from email.message import Message
from itertools import count
from types import SimpleNamespace

import pytest

from oncebox.errors import NotDone, Transient
from oncebox.model.deliveries.effects import proves_not_done


def _error(module: str, name: str, **attributes: object) -> Exception:
    """Return an error that looks like a client's; the clients are not installed here."""
    kind = type(name, (Exception,), {"__module__": module})
    error: Exception = kind()
    for attribute, value in attributes.items():
        setattr(error, attribute, value)
    return error


_numbers = count()


def _numbered(error: Exception) -> str:
    return f"{type(error).__module__}.{type(error).__name__}-{next(_numbers)}"


def _http(status: int) -> Exception:
    return _error("httpx", "HTTPStatusError", response=SimpleNamespace(status_code=status))


@pytest.mark.parametrize(
    "error",
    [
        NotDone(),
        ConnectionRefusedError(),
        socket.gaierror(),
        _error("httpx", "ConnectError"),
        _error("httpx._exceptions", "ConnectTimeout"),
        _error("httpx2", "ConnectError"),
        _error("requests.exceptions", "ConnectTimeout"),
        _error("httpx", "HTTPStatusError", response=SimpleNamespace(status_code=404)),
        _error("requests.exceptions", "HTTPError", response=SimpleNamespace(status_code=422)),
        _error("aiohttp.client_exceptions", "ClientResponseError", status=400),
    ],
    ids=_numbered,
)
def test_these_prove_that_nothing_happened(error: Exception) -> None:
    assert proves_not_done(error)


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        BrokenPipeError(),
        OSError(),
        ValueError(),
        Transient(),
        _error("httpx", "ReadTimeout"),
        _error("httpx", "WriteError"),
        _error("requests.exceptions", "ConnectionError"),
        _error("mylib", "ConnectError"),
        _error("mylib", "HTTPError", status=404),
        _error("httpx", "HTTPStatusError", response=SimpleNamespace(status_code=500)),
        _error("httpx", "HTTPStatusError", response=None),
        _error("aiohttp", "ClientResponseError", status="404"),
    ],
    ids=_numbered,
)
def test_these_prove_nothing(error: Exception) -> None:
    assert not proves_not_done(error)


def test_refusals_by_status_are_told_apart() -> None:
    proven = [status for status in range(300, 600) if proves_not_done(_http(status))]

    assert proven == [status for status in range(400, 500) if status not in {408, 409, 423, 425}]


def _redirected(status: int) -> Exception:
    answer = SimpleNamespace(status_code=status, history=[SimpleNamespace(status_code=303)])
    return _error("requests.exceptions", "HTTPError", response=answer)


@pytest.mark.parametrize(
    "error",
    [
        _redirected(404),
        _error("aiohttp.client_exceptions", "ClientResponseError", status=404, history=("first",)),
        _error("aiohttp.client_exceptions", "ClientConnectorError"),
        _error("requests.exceptions", "ConnectTimeout", request=SimpleNamespace(method="GET")),
        urllib.error.HTTPError("http://x", 404, "", Message(), None),
    ],
    ids=_numbered,
)
def test_what_came_after_a_redirect_proves_nothing(error: Exception) -> None:
    assert not proves_not_done(error)


def test_a_client_built_on_another_is_recognised() -> None:
    base = type("ConnectError", (Exception,), {"__module__": "httpx"})
    derived = type("MyConnectError", (base,), {"__module__": "mylib"})

    assert proves_not_done(derived())
