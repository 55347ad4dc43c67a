"""Our side of sends: whole sends, claims, and answers to who asks again, each from the disk."""

from __future__ import annotations

import argparse
import asyncio
import hashlib

import uvloop
from msgspec.structs import replace

from bench import load
from bench.ours import new_box
from oncebox.box import Oncebox
from oncebox.core import ids
from oncebox.ledger.sends import lifecycle, submission
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import Intent, SendOrigin
from oncebox.model.sends.send import AnswerStatus, IntentAccepted, SendReport, SendState
from oncebox.model.sends.transports import SendAccepted

TYPE = "order.confirmation"
KNOWN = 10_000
_AT_ONCE = 500


async def send(options: argparse.Namespace) -> None:
    """Report how many mails go all the way by the ``log`` transport."""
    async with new_box(options) as box:

        async def call(key: str, body: bytes) -> None:
            mail = _mail(body.decode())
            accepted = await box.send(mail, event_type=TYPE, entity_id=key, wait=30)
            assert accepted.status is AnswerStatus.LOGGED

        await _measure(call, options)


async def claim(options: argparse.Namespace) -> None:
    """Report how many keys are claimed, each with its mail, on disk when it is answered.

    The mail is written beforehand: the other side claims without one.
    """
    async with _opened(options) as box:
        ledger = box.components.ledger
        new = box.components.outbox.compose(_me(box), _intent("any"))

        async def call(key: str, _body: bytes) -> None:
            digest = hashlib.sha256(key.encode()).digest()
            message_id = f"<{digest.hex()[:32]}@example.com>"
            one = replace(new, id=ids.new("snd"), key=digest, message_id=message_id)
            accepted = await ledger.submit(submission.store_intents, one)
            assert isinstance(accepted, IntentAccepted)
            assert accepted.created

        await _measure(call, options)


async def duplicate(options: argparse.Namespace) -> None:
    """Report how many repeats are answered as duplicates."""
    async with _opened(options) as box:
        me, outbox = _me(box), box.components.outbox
        await _fill(box)

        async def call(key: str, _body: bytes) -> None:
            accepted = await outbox.send(me, _intent(str(hash(key) % KNOWN)))
            assert accepted.status is AnswerStatus.DUPLICATE

        await _measure(call, options)


async def _measure(call: load.Accept, options: argparse.Namespace) -> None:
    timed = load.Timed(call)
    per_second = await load.rate(timed, seconds=options.seconds)
    load.report(per_second, f"{load.CALLERS} callers", **timed.waits())


async def _fill(box: Oncebox) -> None:
    """Store sends that the provider accepted."""
    me, components = _me(box), box.components

    async def taken(number: int) -> None:
        accepted = await components.outbox.send(me, _intent(str(number)))
        report = SendReport(tenant=me.tenant, id=accepted.send.id, fence=0, outcome=SendAccepted())
        settled = await components.ledger.submit(lifecycle.settle, report)
        assert settled is not None
        assert settled.send.state is SendState.SENT

    for start in range(0, KNOWN, _AT_ONCE):
        await asyncio.gather(*map(taken, range(start, start + _AT_ONCE)))


def _opened(options: argparse.Namespace) -> _Opened:
    return _Opened(new_box(options))


class _Opened:
    """A box that is open and does not work."""

    def __init__(self, box: Oncebox) -> None:
        self._box = box

    async def __aenter__(self) -> Oncebox:
        await self._box.open()
        return self._box

    async def __aexit__(self, *_error: object) -> None:
        await self._box.close()


def _me(box: Oncebox) -> SendOrigin:
    return SendOrigin(tenant=box.settings.tenant, key="key_bench")


def _mail(text: str) -> Email:
    return Email(sender="shop@example.com", to="ann@example.org", subject="Your order", text=text)


def _intent(entity: str) -> Intent:
    return Intent(email=_mail("Thank you."), event_type=TYPE, entity_id=entity)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    verbs = parser.add_subparsers(required=True)
    for work in (send, claim, duplicate):
        verb = verbs.add_parser(work.__name__)
        verb.set_defaults(run=work)
        verb.add_argument("--seconds", type=float, default=load.SECONDS)
    options = parser.parse_args()
    uvloop.run(options.run(options))


if __name__ == "__main__":
    main()
