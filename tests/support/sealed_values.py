"""One value of every kind that is stored encrypted, and where encrypted values lie."""

from oncebox.box import Oncebox
from oncebox.db.database import Transaction
from oncebox.ledger.admin import tenants
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.sends import transports
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.model.mailboxes.mailbox import MailboxKind, NewMailbox
from oncebox.model.sends.transports import NewTransport
from tests.support.api import Api
from tests.support.clerk import TENANT

#: every column with encrypted values
COLUMNS = frozenset({
    "oncebox_actions.result",
    "oncebox_artifacts.sealed",
    "oncebox_idempotency.answer",
    "oncebox_mailboxes.config",
    "oncebox_messages.document",
    "oncebox_payloads.body",
    "oncebox_quarantine.sealed",
    "oncebox_send_bodies.envelope",
    "oncebox_send_bodies.message",
    "oncebox_source_secrets.sealed",
    "oncebox_suppressions.address",
    "oncebox_transports.config",
})  # fmt: skip
SUPPRESSED = "ann@example.com"
SECRET = "whsec_" + "QUJD" * 8
ACTION = "/v1/attempts/signup-42/actions/verify"
SEND = {
    "sender": "shop@example.com",
    "to": "bob@example.com",
    "subject": "Your order",
    "text": "Thank you",
}
SEND_KEY = {"Idempotency-Key": "order-1"}
_BLOBS = {
    "sqlite": "SELECT owner.name, col.name FROM sqlite_schema AS owner,"
    " pragma_table_info(owner.name) AS col WHERE owner.type = 'table' AND col.type = 'BLOB'",
    "postgres": "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = 'public' AND data_type = 'bytea'",
}


async def store_every_kind(box: Oncebox) -> None:
    """Store a value of every kind but mail."""
    api, components = Api(box, box.asgi()), box.components
    await components.database.write(tenants.create, TENANT, api.deed(DEFAULT_TENANT))
    source = {"name": "shop", "scheme": "standard-webhooks", "secrets": [SECRET]}
    await _created(api, "/v1/sources", source)
    await api.call("PUT", "/v1/suppressions", {"address": SUPPRESSED})
    await _created(api, "/v1/sends", SEND, SEND_KEY)
    begun = await api.call("POST", ACTION, {})
    await api.call("POST", f"{ACTION}/done", {"fence": begun.json()["fence"], "result": {"n": 1}})
    config = components.send_cipher.encrypt_field("config", TENANT, "relay", b"config")
    new = NewTransport(name="relay", kind="smtp", config=config)
    await components.database.write(transports.add, new, api.deed(TENANT))
    sealed = components.mailbox_cipher.encrypt(TENANT, "support", b"config")
    mailbox = NewMailbox(name="support", kind=MailboxKind.IMAP, account="ann", config=sealed)
    await components.database.write(mailboxes.add, "mbx_1", mailbox, api.deed(TENANT))
    components.quarantine.put(
        "shop", tenant=TENANT, reason="signature", headers=[("x-token", "hidden")], body=b"{}"
    )
    await components.quarantine.close()


async def _created(
    api: Api, path: str, body: object, headers: dict[str, str] | None = None
) -> None:
    answer = await api.call("POST", path, body, headers=headers)
    assert answer.status_code < 300, answer.text


def encrypted_values(tx: Transaction, kind: str, prefix: bytes) -> dict[str, list[bytes]]:
    """Return the values that begin so, by table and column."""
    found: dict[str, list[bytes]] = {}
    for table, column in tx.execute(_BLOBS[kind]):
        rows = tx.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")  # noqa: S608 - ours
        for (value,) in rows:
            if bytes(value).startswith(prefix):
                found.setdefault(f"{table}.{column}", []).append(bytes(value))
    return found
