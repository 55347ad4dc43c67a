"""How a transport is told: as a line, as an outline, as JSON; its secrets never."""

from collections.abc import Iterator
from typing import Any

from oncebox.assembly import Rooms
from oncebox.cli.words import ago, duration, moment
from oncebox.model.transport import Transport
from oncebox.transport.email import config as configs
from oncebox.transport.email.config import TransportConfig

COLUMNS = ("transport", "state", "kind", "position", "rate", "failures", "note")


def config_of(rooms: Rooms, transport: Transport) -> TransportConfig:
    """Return the configuration of a transport.

    Raises: ConfigInvalid, MasterKeyWrong.
    """
    sealed = transport.config
    if sealed is None:
        return configs.read(None)
    opened = rooms.sendbox.open_config(transport.tenant, transport.name, sealed)
    return configs.read(opened)


def record(transport: Transport, now: int) -> dict[str, Any]:
    """Return a transport for JSON."""
    rate = transport.rate
    return {
        "name": transport.name,
        "tenant": transport.tenant,
        "kind": transport.kind,
        "state": transport.state(now),
        "position": transport.position,
        "rate": None if rate is None else {"sends": rate.sends, "within": rate.within / 1000},
        "failures": transport.failures,
        "rests_until": transport.rests_until,
        "created_at": transport.created_at,
        "changed_at": transport.changed_at,
    }


def told(transport: Transport, now: int) -> tuple[object, ...]:
    """Return a transport as the cells of a line."""
    return (
        transport.name,
        transport.state(now),
        transport.kind,
        transport.position,
        _rate(transport),
        transport.failures,
        note(transport, now),
    )


def lines(transport: Transport, now: int) -> Iterator[tuple[str, object]]:
    """Tell a transport line by line, each beginning with what it is about."""
    yield ("transport", transport.name)
    yield ("tenant", transport.tenant)
    yield ("kind", transport.kind)
    yield ("state", transport.state(now))
    if said := note(transport, now):
        yield ("note", said)
    yield ("position", transport.position)
    yield ("rate", _rate(transport) or "no limit")
    yield ("failures", transport.failures)
    yield ("changed", f"{moment(transport.changed_at)} ({ago(transport.changed_at, now)})")


def note(transport: Transport, now: int) -> str:
    """Say what somebody should know who wonders why no mail leaves."""
    if transport.kind == "log":
        return "stores mail and sends none"
    if transport.state(now) == "resting" and transport.rests_until is not None:
        return f"rests after failures; one send tries it {ago(transport.rests_until, now)}"
    return ""


def _rate(transport: Transport) -> str:
    if transport.rate is None:
        return ""
    return f"{transport.rate.sends} in {duration(transport.rate.within)}"
