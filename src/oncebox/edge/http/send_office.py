"""What operators do about sends: look closely, resolve a doubt, let one be tried again."""

from typing import Any

from oncebox.edge.http.call import Call
from oncebox.edge.http.route import OPERATOR, Route
from oncebox.edge.http.sends import changed, found, shown
from oncebox.ledger.sends import interventions, sends
from oncebox.model.send import Send
from oncebox.model.send_prospects import next_action
from oncebox.wire import sends as wire

_ONE = "/v1/sends/{id}"
_SCOPES = frozenset({OPERATOR})
#: what is told of a send by other names, or not as it is
_APART = frozenset({"send", "key", "tries", "next_action"})
_SAME = [name for name in wire.SendInspection.__struct_fields__ if name not in _APART]


async def inspect(call: Call) -> wire.SendInspection:
    """Return everything known of a send, but not what it says."""
    send = await found(call)
    tries = await call.rooms.counter.read(sends.tries, call.tenant, send.id)
    return wire.SendInspection(
        send=shown(call, send),
        key=send.key.hex(),
        tries=wire.tries_of(tries),
        next_action=next_action(send, call.now),
        **_facts(send),
    )


async def resolve(call: Call) -> wire.SendAnswer:
    """Record a person's word on a send in doubt."""
    asked: wire.ResolveSend = call.body
    resolved = await call.rooms.counter.write(
        interventions.resolve,
        call.path["id"],
        call.deed(asked.why),
        sent=asked.sent,
        provider_id=asked.provider_id,
    )
    return changed(call, resolved)


async def resend(call: Call) -> wire.SendAnswer:
    """Let a send be tried again, or repeat one in doubt once."""
    again = await call.rooms.counter.write(
        interventions.resend, call.path["id"], call.deed(call.body.why)
    )
    return changed(call, again)


def _facts(send: Send) -> dict[str, Any]:
    return {name: getattr(send, name) for name in _SAME}


ROUTES = (
    Route(
        method="GET",
        path=f"{_ONE}/inspect",
        name="inspectSend",
        summary="Show everything known of a send, its tries, and what happens next.",
        scopes=_SCOPES,
        answer=wire.SendInspection,
        handler=inspect,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/resolve",
        name="resolveSend",
        summary="Say of a send in doubt whether it was sent.",
        scopes=_SCOPES,
        body=wire.ResolveSend,
        answer=wire.SendAnswer,
        handler=resolve,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/resend",
        name="resendSend",
        summary="Let a send that was not sent be tried again, or repeat one in doubt once.",
        scopes=_SCOPES,
        body=wire.ResendSend,
        answer=wire.SendAnswer,
        handler=resend,
    ),
)
