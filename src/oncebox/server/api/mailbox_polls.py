"""``/v1/mailboxes/{name}/polls``: the loops of programs that poll an API of their own.

See docs/decisions/0055-use-deliveries-and-a-leased-mailbox-for-polling-programs.md.
"""

import hashlib
import random

from oncebox.core import clock, ids
from oncebox.core.disk_space import DiskLevel
from oncebox.errors import DiskFull, KeyInvalid, LeaseLost, NotFound, StateConflict
from oncebox.ledger.deliveries import pull, settlements
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.mailboxes import polls
from oncebox.ledger.mailboxes.mailboxes import StoredPage
from oncebox.ledger.mailboxes.polls import PollGrant, PollHolder, PollRefused
from oncebox.ledger.notifications import DUE, MAILBOXES
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.mailboxes.mailbox import MailboxKind
from oncebox.model.validation import check_source_name
from oncebox.schemas import polls as wire
from oncebox.schemas.pull import ClaimResponse, LeaseRenewed
from oncebox.server.api.pull import claimed_schema, report_dead
from oncebox.server.http.routing import WORKERS, ApiCall, Routes

routes = Routes()
_POLLS = "/v1/mailboxes/{name}/polls"
_MISSING = "there is no such mailbox; list them with: oncebox mailbox list"
#: how a message came in
_ROAD = "poll"
_KIND = MailboxKind.PROGRAM
#: seconds between two looks at a mailbox that is in use
_LOOK_EVERY = 1.0


@routes("POST", _POLLS, "beginPolls", scopes=WORKERS, body=wire.BeginPolls)
async def begin_polls(call: ApiCall) -> wire.PollLease:
    """Lease a mailbox to one loop, waiting up to 30 seconds; the first loop makes the mailbox."""
    asked: wire.BeginPolls = call.body
    _check_new_name(call)
    until = clock.steady() + asked.wait
    subscription = call.ledger.subscribe(MAILBOXES)
    answer = await _begin(call, asked, counted=asked.counted)
    while isinstance(answer, PollRefused) and (rest := until - clock.steady()) > 0:
        await subscription.wait(min(rest, _LOOK_EVERY))
        if call.stopping.is_set():
            break
        refused = await call.ledger.read(
            polls.refusal, call.tenant, call.path["name"], call.ledger.clock()
        )
        answer = refused or await _begin(call, asked, counted=True)
    if isinstance(answer, PollRefused):
        return wire.PollLease(status=answer.status, retry_in=answer.retry_in / 1000)
    return wire.PollLease(
        status="leased",
        fence=answer.fence,
        cursor=answer.cursor,
        cursor_version=answer.cursor_version,
    )


@routes("POST", f"{_POLLS}/page", "storeListedPage", scopes=WORKERS, body=wire.ListedPage)
async def store_page(call: ApiCall) -> wire.StoredListing:
    """Store the messages of a page and the cursor after them, in one commit."""
    asked: wire.ListedPage = call.body
    holder = _holder(call)
    if asked.messages and call.components.disk_space.level >= DiskLevel.NO_WEBHOOKS:
        raise DiskFull("the disk is almost full")
    page = polls.PolledPage(
        version=asked.version,
        cursor=asked.cursor,
        messages=[_draft(call, each) for each in asked.messages],
        repeated=asked.repeated,
        polls=int(asked.last),
    )
    try:
        stored = await call.ledger.write(polls.store, holder, page, call.ledger.clock())
    except LeaseLost:
        raise _lease_lost(call) from None
    _report_page(call, asked, stored)
    return wire.StoredListing(
        cursor_version=stored.cursor_version,
        new=stored.new,
        duplicates=stored.duplicates,
        replays=stored.replays + asked.repeated,
    )


@routes("POST", f"{_POLLS}/next", "claimListedMessage", scopes=WORKERS, body=wire.ClaimListed)
async def claim_message(call: ApiCall) -> ClaimResponse:
    """Claim the next message of a mailbox; the same request key gets the same one."""
    asked: wire.ClaimListed = call.body
    holder, lease = _holder(call), round(asked.lease * 1000)
    retry = settlements.default_retry_rules(call.components.settings.retry)
    name = call.path["name"]
    who = DeliveryClaimant(call.tenant, name, asked.worker, lease, retry.tries, retry.budget)
    request = pull.ClaimRequest(
        tenant=call.tenant,
        worker=asked.worker,
        request_key=asked.request_key,
        claimants=(who,),
        most=1,
    )
    try:
        claimed, dead = await call.ledger.write(
            polls.claim, holder, request, lease, call.ledger.clock()
        )
    except LeaseLost:
        raise _lease_lost(call) from None
    report_dead(call, dead)
    return ClaimResponse(deliveries=[claimed_schema(each) for each in claimed], lease=asked.lease)


@routes("POST", f"{_POLLS}/renew", "renewPolls", scopes=WORKERS, body=wire.RenewPolls)
async def renew_polls(call: ApiCall) -> LeaseRenewed:
    """Renew the lease of a mailbox, and that of the message that is being handled."""
    asked: wire.RenewPolls = call.body
    until = call.ledger.clock() + round(asked.lease * 1000)
    message = None
    if asked.delivery_id is not None and asked.delivery_fence is not None:
        message = pull.LeaseRef(asked.delivery_id, asked.delivery_fence)
    try:
        await call.ledger.write(polls.renew, _holder(call), message, until)
    except LeaseLost:
        raise _lease_lost(call) from None
    return LeaseRenewed(until=until)


@routes("POST", f"{_POLLS}/failed", "failPoll", scopes=WORKERS, body=wire.FailedPoll)
async def fail_poll(call: ApiCall) -> wire.PollDelayed:
    """Record that a list failed and give the lease back; no loop polls before the time is over."""
    asked: wire.FailedPoll = call.body
    failed = polls.PollFailed(asked.code, asked.retry_after)
    telemetry, now = call.components.telemetry, call.ledger.clock()
    try:
        due_at = await call.ledger.write(polls.fail, _holder(call), failed, random.random, now)
    except LeaseLost:
        raise _lease_lost(call) from None
    telemetry.mailbox_polls.labels(_KIND).inc()
    telemetry.mailbox_failures.labels(_KIND).inc()
    telemetry.log.warning(
        "mailbox_failed",
        mailbox=call.path["name"],
        tenant=call.tenant,
        kind=str(_KIND),
        code=asked.code,
        next_try_in=(due_at - now) / 1000,
    )
    return wire.PollDelayed(retry_in=(due_at - now) / 1000)


@routes("POST", f"{_POLLS}/end", "endPolls", scopes=WORKERS, body=wire.EndPolls)
async def end_polls(call: ApiCall) -> None:
    """Give the lease of a mailbox back, so that another loop may begin at once."""
    asked: wire.EndPolls = call.body
    now = call.ledger.clock()
    await call.ledger.write(polls.end, _holder(call), timed_out=asked.timed_out, now=now)
    if asked.timed_out:
        call.components.telemetry.poll_timeouts.inc()
    call.ledger.notify(MAILBOXES)


async def _begin(
    call: ApiCall, asked: wire.BeginPolls, *, counted: bool
) -> PollGrant | PollRefused:
    name, lease = call.path["name"], round(asked.lease * 1000)
    request = polls.PollRequest(name, asked.worker, lease, counted)
    answer = await call.ledger.write(polls.begin, request, ids.new("mbx"), call.audit_entry())
    telemetry = call.components.telemetry
    if isinstance(answer, PollGrant):
        telemetry.log.info(
            "mailbox_polls_begun",
            mailbox=name,
            tenant=call.tenant,
            worker=asked.worker,
            cursor_version=answer.cursor_version,
        )
    elif answer.status == "in_use" and not counted:
        telemetry.mailbox_lease_conflicts.inc()
        telemetry.log.info(
            "mailbox_in_use", mailbox=name, tenant=call.tenant, retry_in=answer.retry_in / 1000
        )
    return answer


def _check_new_name(call: ApiCall) -> None:
    """Check the name of a mailbox that may be made; its messages are a source of that name.

    Raises: KeyInvalid, NotFound, StateConflict.
    """
    name = call.path["name"]
    check_source_name(name)
    _check_key(call)
    if call.components.sources.find(call.tenant, name) is not None:
        raise StateConflict(
            f"mailbox {name}: there is a webhook source of this name; choose another one for the "
            "mailbox"
        )


def _check_key(call: ApiCall) -> None:
    if not call.key.may_work(call.path["name"]):
        raise NotFound(_MISSING)


def _holder(call: ApiCall) -> PollHolder:
    """Return the loop that calls, if its key may work on the messages of the mailbox.

    Raises: NotFound.
    """
    _check_key(call)
    try:
        check_source_name(call.path["name"])
    except KeyInvalid as error:
        raise NotFound(_MISSING) from error
    return PollHolder(call.tenant, call.path["name"], call.body.fence)


def _draft(call: ApiCall, listed: wire.ListedMessage) -> NewDelivery:
    """Return the delivery of a message; whatever its body is, the same key is the same message."""
    return call.components.intake.draft(
        call.path["name"],
        key=listed.key,
        body=listed.body,
        tenant=call.tenant,
        fingerprint=hashlib.sha256(listed.key.encode("utf-8", "surrogatepass")).digest(),
        road=_ROAD,
        redelivery="count",
    )


def _report_page(call: ApiCall, asked: wire.ListedPage, stored: StoredPage) -> None:
    """Count a page, log it if it had messages, and wake who waits for deliveries."""
    telemetry, name = call.components.telemetry, call.path["name"]
    telemetry.mailbox_polls.labels(_KIND).inc(int(asked.last))
    telemetry.mailbox_mails.labels(_KIND, "new").inc(stored.new)
    telemetry.mailbox_mails.labels(_KIND, "duplicate").inc(stored.duplicates)
    replays = stored.replays + asked.repeated
    if replays:
        telemetry.cursor_replays.labels("mailboxes").inc(replays)
    if stored.first_after is not None:
        telemetry.time_to_first_message.observe(stored.first_after / 1000)
    if asked.messages:
        telemetry.accepted.labels(name).inc(stored.new)
        call.ledger.notify(DUE)
        telemetry.log.info(
            "mailbox_page_stored",
            mailbox=name,
            tenant=call.tenant,
            new=stored.new,
            duplicates=stored.duplicates,
            replays=replays,
            cursor_version=stored.cursor_version,
        )


def _lease_lost(call: ApiCall) -> LeaseLost:
    call.components.telemetry.mailbox_lease_conflicts.inc()
    return LeaseLost()
