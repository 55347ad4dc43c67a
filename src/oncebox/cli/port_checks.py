"""The doctor's checks of ports: free, or held by a service of ours."""

import asyncio

from oncebox.cli.findings import Check, Status
from oncebox.config import Settings
from oncebox.edge.server import listen
from oncebox.errors import AddressUnavailable

#: seconds for whoever listens to say who it is
_WITHIN = 2.0
_ENOUGH = 4096
_ASK = b"GET /problems/lease_lost HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - it is asked here


async def ports(settings: Settings) -> list[Check]:
    """Look at where the service listens, or would."""
    http, smtp = settings.http, settings.smtp
    looks = [_port("http port", http.host, http.port, _ASK, b'"lease_lost"')]
    if smtp.enabled:
        looks.append(_port("smtp port", smtp.host, smtp.port, b"", b"ESMTP Oncebox"))
    return await asyncio.gather(*looks)


async def _port(name: str, host: str, port: int, ask: bytes, sign: bytes) -> Check:
    if port == 0:
        return Check(name, Status.OK, "a free one is taken at every start")
    try:
        for each in listen(host, port):
            each.close()
    except AddressUnavailable as error:
        if sign in await _said(_ANY.get(host, host), port, ask):
            return Check(name, Status.OK, f"{host}:{port}, Oncebox answers there")
        setting = f"{name.partition(' ')[0]}.port"
        return Check(name, Status.WARN, str(error), f"choose another with {setting}")
    return Check(name, Status.OK, f"{host}:{port} is free")


async def _said(host: str, port: int, ask: bytes) -> bytes:
    """Return what whoever listens says first; nothing if it is silent."""
    said = b""
    try:
        async with asyncio.timeout(_WITHIN):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(ask)
                while len(said) < _ENOUGH and (more := await reader.read(_ENOUGH)):
                    said += more
                    if not ask:
                        break
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return said
    return said
