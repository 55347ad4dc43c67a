"""``/v1/mailboxes``: mailboxes on other servers, their configuration and state."""

from operator import attrgetter

import msgspec

from oncebox.errors.http import Forbidden
from oncebox.ledger.admin import sources
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.notifications import MAILBOXES
from oncebox.ledger.transactions import Transaction
from oncebox.model.mailboxes.mailbox import Mailbox
from oncebox.model.mailboxes.mailbox_fields import SECRET_FIELDS, MailboxDraft, MailboxFields
from oncebox.schemas import mailboxes as wire
from oncebox.schemas.fields import EmptyBody, ListQuery, ReasonBody
from oncebox.server.http.cursors import make_page, page_start
from oncebox.server.http.routing import OPERATORS, ApiCall, Routes

routes = Routes()


@routes("GET", "/v1/mailboxes", "listMailboxes", scopes=OPERATORS, query=ListQuery)
async def list_mailboxes(call: ApiCall) -> wire.MailboxPage:
    """List mailboxes by name."""
    after, most = page_start(call, ""), call.query.limit + 1
    found = await call.ledger.read(mailboxes.of_tenant, call.tenant, after=after, most=most)
    now = call.ledger.clock()
    return make_page(
        call,
        wire.MailboxPage,
        found,
        lambda each: wire.mailbox_schema(each, now),
        attrgetter("name"),
    )


async def _notify(call: ApiCall) -> None:
    call.ledger.notify(MAILBOXES)


async def _check(call: ApiCall) -> None:
    """Refuse what cannot be read before the transaction; the first call imports the readers."""
    _draft(call.body.name, call.body)


# A mailbox makes the service connect to a server that the caller names, also inside its network:
# only keys of the installation's own tenant may name one.


@routes.create(
    "/v1/mailboxes",
    "addMailbox",
    scopes=OPERATORS,
    body=wire.NewMailbox,
    before=_check,
    after=_notify,
    home=True,
)
def create_mailbox(call: ApiCall, tx: Transaction) -> wire.Mailbox:
    """Read the mail of a mailbox on another server."""
    asked: wire.NewMailbox = call.body
    entry = call.audit_entry()
    added = call.components.mailbox_service.add(tx, _draft(asked.name, asked), entry)
    return wire.mailbox_schema(added, entry.at)


@routes("GET", "/v1/mailboxes/{name}", "getMailbox", scopes=OPERATORS)
async def get_mailbox(call: ApiCall) -> wire.Mailbox:
    """Get a mailbox without its secrets: state, cursor version and figures."""
    return wire.mailbox_schema(await _find(call), call.ledger.clock())


@routes("PUT", "/v1/mailboxes/{name}", "changeMailbox", scopes=OPERATORS, body=wire.ChangedMailbox)
async def change_mailbox(call: ApiCall) -> wire.Mailbox:
    """Replace the whole configuration of a mailbox; its cursor stays."""
    await _find(call)
    if call.tenant != call.components.settings.tenant:
        raise Forbidden("mailboxes of this tenant are configured by who runs the service; ask them")
    draft, entry = _draft(call.path["name"], call.body), call.audit_entry()
    changed = await call.ledger.write(call.components.mailbox_service.change, draft, entry)
    await _notify(call)
    return wire.mailbox_schema(changed, entry.at)


@routes("DELETE", "/v1/mailboxes/{name}", "removeMailbox", scopes=OPERATORS)
async def remove_mailbox(call: ApiCall) -> None:
    """Stop reading a mailbox and forget it; its messages stay."""
    service = call.components.mailbox_service
    await call.ledger.write(service.remove, call.path["name"], call.audit_entry())


@routes("POST", "/v1/mailboxes/{name}/test", "testMailbox", scopes=OPERATORS, body=EmptyBody)
async def test_mailbox(call: ApiCall) -> wire.MailboxTest:
    """Connect to a mailbox and log in; read no mail."""
    from oncebox.mailboxes.mailbox_config import probe_mailbox  # noqa: PLC0415 - few need readers
    from oncebox.mailboxes.reader import MailboxFailure  # noqa: PLC0415 - as above

    found, service = await _find(call), call.components.mailbox_service

    async def keep(config: bytes) -> None:
        await call.ledger.write(service.keep_token, found, config, call.ledger.clock())
        await _notify(call)

    try:
        probed = await probe_mailbox(service.decrypt(found), keep)
    except MailboxFailure as failure:
        return wire.MailboxTest(name=found.name, works=False, code=failure.code)
    return wire.MailboxTest(name=found.name, works=True, **msgspec.to_builtins(probed))


@routes("POST", "/v1/mailboxes/{name}/pause", "pauseMailbox", scopes=OPERATORS, body=ReasonBody)
async def pause_mailbox(call: ApiCall) -> wire.Mailbox:
    """Stop reading a mailbox."""
    entry = call.audit_entry(call.body.why)
    return await _operated(call, await call.ledger.write(mailboxes.pause, call.path["name"], entry))


@routes("POST", "/v1/mailboxes/{name}/resume", "resumeMailbox", scopes=OPERATORS, body=ReasonBody)
async def resume_mailbox(call: ApiCall) -> wire.Mailbox:
    """Read a mailbox at once, after a pause or a failure."""
    entry = call.audit_entry(call.body.why)
    return await _operated(
        call, await call.ledger.write(mailboxes.resume, call.path["name"], entry)
    )


@routes("POST", "/v1/mailboxes/{name}/resync", "resyncMailbox", scopes=OPERATORS, body=ReasonBody)
async def resync_mailbox(call: ApiCall) -> wire.Mailbox:
    """Read a mailbox from its beginning; mail that was read before is recognised."""
    entry = call.audit_entry(call.body.why)
    return await _operated(
        call, await call.ledger.write(mailboxes.resync, call.path["name"], entry)
    )


async def _operated(call: ApiCall, found: Mailbox) -> wire.Mailbox:
    await _notify(call)
    return wire.mailbox_schema(found, call.ledger.clock())


async def _find(call: ApiCall) -> Mailbox:
    return await call.ledger.read(mailboxes.get, call.tenant, call.path["name"])


def _draft(name: str, fields: MailboxFields) -> MailboxDraft:
    from oncebox.mailboxes.mailbox_config import draft_mailbox  # noqa: PLC0415 - few need readers

    sources.refuse_references(getattr(fields, each) for each in SECRET_FIELDS)
    return draft_mailbox(name, fields)
