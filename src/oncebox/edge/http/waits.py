"""``/v1/inboxes/{id}/wait`` and ``/v1/inboxes/wait``: wait, match and claim in one call."""

from collections.abc import Sequence

import msgspec

from oncebox.edge.http.artifacts import grant
from oncebox.edge.http.call import Call
from oncebox.edge.http.inboxes import asker
from oncebox.edge.http.resumes import Progress, Resumes
from oncebox.edge.http.route import AGENT, OPERATOR, Route
from oncebox.edge.http.seats import seated
from oncebox.errors import OnceboxError
from oncebox.ledger.inboxes import waits
from oncebox.ledger.inboxes.grants import claimant, refusal
from oncebox.ledger.inboxes.waits import Place, Question, Report
from oncebox.model.candidate import Kind
from oncebox.model.grant import Ask, Claimant, Contested, Denied, Granted
from oncebox.model.purpose import Purpose
from oncebox.model.waiting import Awaited, checked
from oncebox.wire import waits as wire

_SCOPES = frozenset({AGENT, OPERATOR})
#: what keeps somebody from ever getting it, however long the wait
_FINAL = frozenset({"already_claimed", "link_refused", "not_opened"})


async def wait(call: Call) -> wire.Waited:
    """Wait for something in one inbox."""
    return await _counted(call, (call.path["id"],))


async def wait_any(call: Call) -> wire.Waited:
    """Wait for something in any of several inboxes."""
    return await _counted(call, tuple(dict.fromkeys(call.body.inboxes)))


async def _counted(call: Call, inboxes: tuple[str, ...]) -> wire.Waited:
    """Wait, and count how it ended."""
    waits_by_end = call.rooms.telemetry.waits
    try:
        answer = await _waited(call, inboxes)
    except OnceboxError as error:
        waits_by_end.labels(error.code).inc()
        raise
    waits_by_end.labels(answer.status).inc()
    return answer


async def _waited(call: Call, inboxes: tuple[str, ...]) -> wire.Waited:
    """Look, rest until something has moved, and look again, until the time is up."""
    asked: wire.WaitFor = call.body
    question = Question(asker=asker(call), key=call.key, inboxes=inboxes, awaited=_awaited(asked))
    resumes = Resumes(
        call.rooms.master_key, tenant=call.tenant, key=call.key.id, inboxes=inboxes, asked=asked
    )
    progress = Progress(call.now) if asked.resume is None else resumes.read(asked.resume)
    async with seated(call, inboxes, asked.wait) as seat:
        while True:
            seat.look_begins()
            answer = await _tried(call, question)
            if answer is not None:
                return answer
            if not await seat.rest():
                break
    return wire.Waited(
        status="timeout",
        resume=resumes.make(progress),
        waited=max(0, call.now - progress.began_at) / 1000,
        reports=await _reports(call, question),
    )


async def _tried(call: Call, question: Question) -> wire.Waited | None:
    """Claim what is there; None if there is nothing, but something may come."""
    places = await call.rooms.lobby.looks.look(question)
    who = claimant(question.asker, question.awaited.claim_key)
    contested: wire.WaitConflict | None = None
    refusals: list[OnceboxError] = []
    for place in _in_turn(call, who, places):
        outcome = await call.rooms.grants.ask(Ask(claimant=who, wish=place.wish))
        if isinstance(outcome, Granted):
            return _granted(call, outcome)
        if isinstance(outcome, Contested):
            contested = contested or _conflict(place, outcome)
        elif isinstance(outcome, Denied) and outcome.why in _FINAL:
            refusals.append(refusal(outcome))
    if contested is not None:
        reports = await _reports(call, question)
        return wire.Waited(status="conflict", conflict=contested, reports=reports)
    over = sum(place.over and not place.found for place in places)
    if len(refusals) + over < len(places):
        return None
    if refusals:
        raise refusals[0]
    return wire.Waited(status="inbox_closed", reports=await _reports(call, question))


def _in_turn(call: Call, who: Claimant, places: Sequence[Place]) -> list[Place]:
    """Return the places that have something: first those with what is the claimant's already.

    So whoever asks again, because an answer was lost, gets the same and not one more.
    """
    holds = call.rooms.grants.holds

    def turn(place: Place) -> tuple[bool, bool]:
        mine = any(holds(who, each) for each in place.found)
        return (not mine, all(each.claimed for each in place.found))

    return sorted((each for each in places if each.found), key=turn)


def _awaited(asked: wire.WaitFor) -> Awaited:
    """Return what is waited for, as it is compared.

    Raises: InboxInvalid.
    """
    return checked(
        Awaited(
            kind=Kind(asked.kind),
            sender=asked.sender,
            purpose=Purpose(asked.purpose),
            token=asked.token,
            subject=asked.subject,
            recipient=asked.recipient,
            claim_key=asked.claim_key,
            after=asked.after,
            host=asked.host,
        )
    )


def _granted(call: Call, outcome: Granted) -> wire.Waited:
    if not outcome.repeated:
        seconds = max(0, call.now - outcome.artifact.received_at) / 1000
        call.rooms.telemetry.grant_seconds.observe(seconds)
    return wire.Waited(status="granted", grant=grant(outcome, call))


def _conflict(place: Place, outcome: Contested) -> wire.WaitConflict:
    return wire.WaitConflict(
        inbox_id=place.inbox.id, why=outcome.why, artifact_ids=list(outcome.artifact_ids)
    )


async def _reports(call: Call, question: Question) -> list[wire.WaitReport]:
    read = call.rooms.counter.read
    return [
        _shown(await read(waits.report, call.rooms.vault, question.asker, id_, question.awaited))
        for id_ in question.inboxes
    ]


def _shown(report: Report) -> wire.WaitReport:
    return wire.WaitReport(
        inbox_id=report.inbox.id,
        attempt_id=report.inbox.attempt_id,
        state=report.inbox.state,
        cursor=report.inbox.cursor,
        messages_inspected=report.inspected,
        seen=[msgspec.convert(e, wire.SeenMessage, from_attributes=True) for e in report.seen],
        smtp_saw=report.smtp_saw,
        unread=report.unread,
    )


ROUTES = (
    Route(
        method="POST",
        path="/v1/inboxes/{id}/wait",
        name="waitForArtifact",
        summary="Wait up to 55 seconds for a code or link that fits, and claim it.",
        scopes=_SCOPES,
        body=wire.WaitFor,
        answer=wire.Waited,
        handler=wait,
    ),
    Route(
        method="POST",
        path="/v1/inboxes/wait",
        name="waitForAnyArtifact",
        summary="Wait up to 55 seconds for a code or link in any of several inboxes, and claim it.",
        scopes=_SCOPES,
        body=wire.WaitForAny,
        answer=wire.Waited,
        handler=wait_any,
    ),
)
