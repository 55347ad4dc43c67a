"""Hooks for schemathesis: what the API asks for, and no schema can say.

Every request has an Idempotency-Key of its own, every mail is one that can be sent, every source
and mailbox one that can be added. An integer may be written 1.0 by the schema, and not by us. The
key that is used here is never revoked: all that comes after it would be refused, and nothing
checked.
"""

import os
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
    "version": 1,
    "send_at": None,
    "valid_until": None,
    "retention": "transactional",
    "transport": "",
    "failover_group": "",
    "answers": None,
}


#: the same for sources
SOURCE = {
    "scheme": "github",
    "options": {},
    "public_url": "https://hooks.example.com/in/shop",
    "order_by": "$.order",
    "sequence": "$.number",
    "gap_wait": 60,
    "after": {},
    "after_wait": 60,
    "cidrs": ["192.0.2.0/24"],
    "expect": {"$.account": "acct_1"},
    "allow_unsigned": None,
    "inbound": None,
    "inbox": "inb_1",
}
#: and for mailboxes; nobody listens there
MAILBOX = {"kind": "imap", "url": "imaps://ann@127.0.0.1:1", "password": "secret"}
_MAILBOX_NUMBERS = ("since", "poll_every", "poll_after")
#: and for events
EVENT = {"key": "k", "type": "paid", "headers": [["X-A", "b"]], "order_key": None}
#: the id of the key that is used here
OWN_KEY = os.environ.get("OWN_KEY", "")


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Make good what was meant to be; what is missing or wrong on purpose stays so."""
    _keep_own_key(case)
    meta = case.meta
    if not (meta is None or "negative" not in str(meta.generation.mode).lower()):
        return
    if case.headers and NAME in case.headers:
        case.headers[NAME] = str(uuid4())
    path = case.operation.path
    if path.startswith("/v1/sends"):
        _make_good(case)
    if isinstance(case.body, dict):
        case.body = _good_body(path, _whole_numbers(case.body))


def _good_body(path: str, made_up: dict[str, Any]) -> dict[str, Any]:
    body = made_up
    if "wait" in body:
        body = {**body, "wait": 0}
    if "results" in body:  # only of effects that are done
        body = {**body, "results": {}}
    if path.startswith("/v1/suppressions") and "address" in body:
        body = {**body, "address": f"{uuid4()}@example.org"}
    if path == "/v1/keys" and "read:text" in body["scopes"]:
        body = {**body, "scopes": ["agent", "read:text"]}
    if path == "/v1/deliveries":
        body = _event(body)
    if path == "/v1/deliveries/batch":
        body = {"deliveries": [_event(each) for each in body["deliveries"][:100]]}
    if path == "/v1/mailboxes/{name}/polls/page":
        listed = [{**each, "body": "YQ=="} for each in body.get("messages", ())]
        body = {**body, "messages": listed}
    return _good_configuration(path, body)


def _good_configuration(path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path in {"/v1/sources", "/v1/sources/{name}"}:
        return {
            name: SOURCE.get(name, value) if value is not None else None
            for name, value in body.items()
        }
    if path in {"/v1/mailboxes", "/v1/mailboxes/{name}"}:
        name = {"name": str(uuid4())} if "name" in body else {}
        return MAILBOX | name | {each: body[each] for each in _MAILBOX_NUMBERS if each in body}
    return body


def _event(made_up: dict[str, Any]) -> dict[str, Any]:
    """Return an event that can be stored, if there is its source."""
    return {name: value for name, value in made_up.items() if name != "body"} | EVENT


def _keep_own_key(case: Any) -> None:
    if case.operation.path == "/v1/keys/{id}" and case.path_parameters.get("id") == OWN_KEY:
        case.path_parameters["id"] = "key_of_somebody_else"


def _whole_numbers(value: Any) -> Any:
    """Write every integer as one."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(each) for each in value]
    if isinstance(value, dict):
        return {name: _whole_numbers(each) for name, each in value.items()}
    return value


def _make_good(case: Any) -> None:
    """Write mails that can be sent, and wait for none of them: nobody works here."""
    if case.query and "wait" in case.query:
        case.query["wait"] = 0
    if case.operation.path == "/v1/sends":
        case.body = _mail(case.body if isinstance(case.body, dict) else {})
        case.media_type = "application/json"
        if case.headers:
            case.headers.pop(NAME, None)
    if case.operation.path == "/v1/sends/batch" and isinstance(case.body, dict):
        case.body = {"sends": [_mail(each) for each in case.body["sends"][:100]]}


def _mail(made_up: dict[str, Any]) -> dict[str, Any]:
    return {**made_up, **MAIL, "entity_id": str(uuid4())}
