"""The program under torture: an agent that sends mails once, and whose process may die any time.

It asks for every mail, notes what it was told, and ends when all of them are settled. Started
again, it asks for all of them again, as agents do.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from oncebox.box import Oncebox
from oncebox.core import ids
from oncebox.errors import StateConflict, StoreUnavailable
from oncebox.ledger.admin import audit
from oncebox.ledger.sends import lifecycle, transports
from oncebox.model.sends.intent import SendOptions
from oncebox.model.sends.transports import BreakerRules, NewTransport
from oncebox.settings_loading import load_settings
from oncebox.transports import transport_config as ways
from oncebox.transports.resend import ResendConfig
from oncebox.transports.smtp_connection import Relay, RelaySecurity
from oncebox.transports.transport_config import SmtpConfig, TransportConfig
from tests.torture.history import History
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.sends.books import open_sends
from tests.torture.sends.mails import keys, mail

_REST = 0.05
#: Servers fail on purpose here; a transport that rests for long would only cost time.
_BREAKER = BreakerRules(failures=50, first_rest=50, longest_rest=100)


async def main(given: argparse.Namespace) -> None:
    """Send everything, and wait until it is settled."""
    box = new_box(given)
    await _insist(box.open)
    lifecycle._BREAKER_RULES = _BREAKER
    await _insist(lambda: _add_way(box, given))
    wanted = keys(given.trial, given.count)
    with History(given.history) as history:
        await asyncio.gather(*(_ask(box, history, key, given.policy) for key in wanted))
        await _settled(box, given.poll)
    await box.close()


def new_box(given: argparse.Namespace) -> Oncebox:
    """Return a box that notices a lost worker within about one lease."""
    settings = load_settings(
        {},
        database_url=given.url,
        master_key=MASTER_KEY,
        connections=given.connections,
        worker={"poll": given.poll, "stop_within": 5.0},
        sends={"lease": given.lease, "concurrency": 6, "first_wait": 0.02, "longest_wait": 0.1},
    )
    return Oncebox(settings=settings, migrate=True)


async def _insist(action: Callable[[], Awaitable[None]]) -> None:
    """Repeat what a database kept from happening."""
    while True:
        try:
            return await action()
        except StoreUnavailable:
            await asyncio.sleep(_REST)


async def _add_way(box: Oncebox, given: argparse.Namespace) -> None:
    """Configure the way to the fake, unless somebody did already."""
    database, tenant = box.components.database, box.settings.tenant
    chosen = _way(given)
    sealed = box.components.send_cipher.encrypt_field(
        "config", tenant, "fake", ways.encode_config(chosen)
    )
    new = NewTransport(name="fake", kind=ways.transport_kind(chosen), config=sealed)
    deed = audit.AuditEntry(
        id=ids.new("aud"), tenant=tenant, at=database.clock(), who="torture", why="to be tortured"
    )
    with suppress(StateConflict):
        await database.write(transports.add, new, deed)


def _way(given: argparse.Namespace) -> TransportConfig:
    if given.resend:
        return ResendConfig(api_key="re_torture", url=f"http://127.0.0.1:{given.port}")
    relay = Relay(host="127.0.0.1", port=given.port, security=RelaySecurity.NONE)
    return SmtpConfig(relay=relay, greylisted_for=0, answer_within=given.answer_within)


async def _ask(box: Oncebox, history: History, key: str, policy: str) -> None:
    """Ask until there is an answer."""
    chosen: SendOptions = {"event_type": "torture", "entity_id": key, "transport": "fake"}
    if policy:
        chosen["on_unknown"] = policy
    while True:
        call = history.invoke("send", key)
        try:
            told = await box.send(mail(key), **chosen)
        except StoreUnavailable as error:
            call.info(error.code)
            await asyncio.sleep(_REST)
        else:
            call.ok(told.message_id, told.status)
            return


async def _settled(box: Oncebox, poll: float) -> None:
    while await _any_open(box):  # noqa: ASYNC110 - others may settle them
        await asyncio.sleep(poll)


async def _any_open(box: Oncebox) -> bool:
    """Say whether a mail is not settled, or may not be: a database that is late is asked again."""
    try:
        return bool(await box.components.database.read(open_sends))
    except StoreUnavailable:
        return True


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("port", type=int)
    parser.add_argument("history", type=Path)
    parser.add_argument("trial")
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--policy", default="", help="for unknown outcomes")
    parser.add_argument("--resend", action="store_true", help="the port is Resend's")
    parser.add_argument("--answer-within", type=float, default=600.0)
    parser.add_argument("--connections", type=int, default=3)
    parser.add_argument("--lease", type=float, default=0.6, help="seconds a claim lasts")
    parser.add_argument("--poll", type=float, default=0.05)
    return parser.parse_args(arguments)
