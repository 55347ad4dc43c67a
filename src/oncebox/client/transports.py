"""Transports: the ways by which mail leaves; they are configured at the terminal."""

from oncebox.client.call import Call, path
from oncebox.client.room import Room, Verb, When
from oncebox.wire import transports as wire
from oncebox.wire.fields import Because


def all_() -> Call[wire.TransportList]:
    """Return all transports, those that are taken first first."""
    return Call(method="GET", path=path("transports"), answer=wire.TransportList, repeatable=True)


def pause(name: str, *, why: str = "") -> Call[wire.Transport]:
    """Let nothing more leave by a transport; mail for it waits."""
    return _told(name, "pause", why)


def resume(name: str, *, why: str = "") -> Call[wire.Transport]:
    """Let mail leave by a transport again."""
    return _told(name, "resume", why)


def _told(name: str, verb: str, why: str) -> Call[wire.Transport]:
    where = path("transports", name, verb)
    return Call(method="POST", path=where, answer=wire.Transport, body=Because(why=why))


class Transports(Room[When]):
    """``client.transports``."""

    all = Verb(all_)
    pause = Verb(pause)
    resume = Verb(resume)
