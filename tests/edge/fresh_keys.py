"""Hooks for schemathesis: what the API asks for, and no schema can say.

Every wish has an Idempotency-Key of its own, and every mail is one that can be sent.
"""

from typing import Any
from uuid import uuid4

import schemathesis

NAME = "Idempotency-Key"
#: what makes a mail good is more than its schema says; all else stays as it was made up
MAIL = {
    "sender": "shop@example.com",
    "to": "ann@example.org",
    "cc": [],
    "bcc": ["bob@example.org"],
    "reply_to": [],
    "subject": "Your order",
    "text": "Thank you.",
    "html": "",
    "headers": {"X-Order": "1"},
    "attachments": [{"name": "a.txt", "content": "YQ=="}],
    "template": "",
    "variables": {},
    "unsubscribe": "",
    "tags": {"kind": "order"},
    "event_type": "order.paid",
    # An integer may be written 1.0 by the schema, and not by us.
    "version": 1,
    "send_at": None,
    "valid_until": None,
    "retention": "transactional",
    "transport": "",
    "answers": None,
}


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Replace a good key; one that is missing or wrong on purpose stays so."""
    meta = case.meta
    if not (meta is None or "negative" not in str(meta.generation.mode).lower()):
        return
    if case.headers and NAME in case.headers:
        case.headers[NAME] = str(uuid4())
    if case.operation.path.startswith("/v1/sends"):
        _make_good(case)


def _make_good(case: Any) -> None:
    """Write mails that can be sent, and wait for none of them: nobody works here."""
    if case.query and "wait" in case.query:
        case.query["wait"] = 0
    if case.operation.path == "/v1/sends" and isinstance(case.body, dict):
        case.body = _mail(case.body)
        if case.headers:
            case.headers.pop(NAME, None)
    if case.operation.path == "/v1/sends/batch" and isinstance(case.body, dict):
        case.body = {"sends": [_mail(each) for each in case.body["sends"][:100]]}


def _mail(made_up: dict[str, Any]) -> dict[str, Any]:
    return {**made_up, **MAIL, "entity_id": str(uuid4())}
