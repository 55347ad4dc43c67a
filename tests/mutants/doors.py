"""Faults in the doors for mail: a second send, another's send, a payload that slips through."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_SENDS = "tests/server/api/test_sends.py"
_EMAILS = "tests/server/resend/test_emails.py"
_PACKAGE = "tests/server/resend/test_resend_package.py"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


DOORS = (
    Mutant(
        "a key that does not fit its event is taken",
        (
            Patch(
                "src/oncebox/server/api/sends.py",
                "if call.idempotency_key != published:",
                "if not call.idempotency_key:",
            ),
        ),
        (_tests(_SENDS, "test_two_keys_for_one_mail_are_refused_unless_they_are_the_same"),),
    ),
    Mutant(
        "an agent that sees everybody's sends",
        (
            Patch(
                "src/oncebox/server/api/sends.py",
                "return call.requester.owner",
                "return None",
            ),
        ),
        (
            _tests(_SENDS, "test_an_agent_sees_and_cancels_only_its_own_and_an_operator_all"),
            _tests(_EMAILS, "test_an_email_is_shown_in_resends_shape_to_who_sent_it"),
        ),
    ),
    Mutant(
        "suppressed addresses for agents",
        (
            Patch(
                "src/oncebox/server/api/transports.py",
                '"listSuppressions", scopes=OPERATORS',
                '"listSuppressions", scopes=frozenset({"agent", "operator"})',
            ),
        ),
        (_tests(_SENDS, "test_addresses_on_the_suppression_list_get_no_mail"),),
    ),
    Mutant(
        "who has gone is kept waiting",
        (
            Patch(
                "src/oncebox/server/api/sends.py",
                "        for each in (waiting, *ending):\n            each.cancel()",
                "        for each in ending:\n            each.cancel()",
            ),
        ),
        (_tests(_SENDS, "test_who_waits_and_goes_leaves_nobody_waiting"),),
    ),
    Mutant(
        "mails' room for every body",
        (
            Patch(
                "src/oncebox/server/http/http_exchange.py",
                "is_mail = head.path in MAIL_PATHS",
                "is_mail = True",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_limits.py",
                "test_only_mail_may_have_a_body_as_large_as_mail",
            ),
        ),
    ),
    Mutant(
        "mails' room for every body on another server",
        (
            Patch(
                "src/oncebox/server/http/asgi_app.py",
                "        is_mail = path in MAIL_PATHS or (",
                "        is_mail = path != '' or (",
            ),
        ),
        (_tests(_SENDS, "test_attachments_have_a_limit_of_their_own"),),
    ),
    Mutant(
        "a batch that is stored in part",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "        if not isinstance(result, IntentAccepted):\n"
                "            raise refusal_error(result)\n",
                "        if not isinstance(result, IntentAccepted):\n            continue\n",
            ),
        ),
        (_tests(_SENDS, "test_a_batch_with_one_bad_mail_is_refused_whole"),),
    ),
    Mutant(
        "places of a batch with keys of their own at every call",
        (
            Patch(
                "src/oncebox/server/api/sends.py",
                'return f"{key} \\N{NUMERO SIGN}{number}"',
                'return f"{key} {id(object())} {asyncio.get_running_loop().time()} {number}"',
            ),
        ),
        (
            _tests(_SENDS, "test_a_batch_is_one_answer_and_again_as_a_whole"),
            _tests(_EMAILS, "test_a_batch_is_one_request_under_one_key"),
        ),
    ),
    Mutant(
        "a door that forgets the key",
        (
            Patch(
                "src/oncebox/server/resend/emails.py",
                'intent = _to_intent(call.body, call.idempotency_key or ids.new("key"))',
                'intent = _to_intent(call.body, ids.new("key"))',
            ),
        ),
        (
            _tests(_EMAILS, "test_the_same_key_and_payload_is_one_email"),
            _tests(
                _PACKAGE,
                "test_an_email_with_a_key_is_sent_once_and_can_be_looked_at",
                "test_a_plain_retry_loop_sends_once_although_answers_are_lost",
            ),
        ),
    ),
    Mutant(
        "a door that takes any payload under one key",
        (
            Patch("src/oncebox/server/resend/emails.py", "strict=True,", "strict=False,"),
            Patch(
                "src/oncebox/server/resend/emails.py",
                "        answer.drift\n        or answer.status",
                "        answer.status",
            ),
        ),
        (_tests(_EMAILS, "test_the_same_key_with_another_payload_is_a_conflict"),),
    ),
    Mutant(
        "a door that takes any time under one key",
        (
            Patch(
                "src/oncebox/server/resend/emails.py",
                "        or answer.send.send_at != intent.send_at\n",
                "",
            ),
        ),
        (_tests(_EMAILS, "test_the_same_key_with_another_payload_is_a_conflict"),),
    ),
    Mutant(
        "a door without keys that sends once",
        (
            Patch(
                "src/oncebox/server/resend/emails.py",
                'intent = _to_intent(call.body, call.idempotency_key or ids.new("key"))',
                'intent = _to_intent(call.body, call.idempotency_key or "key")',
            ),
        ),
        (_tests(_EMAILS, "test_without_a_key_every_call_is_a_new_email"),),
    ),
    Mutant(
        "a file that should be fetched is left out in silence",
        (
            Patch(
                "src/oncebox/server/resend/emails.py",
                "if given.path is not None:",
                "if given.path is not None and given.content is None:",
            ),
        ),
        (_tests(_EMAILS, "test_what_cannot_be_sent_is_refused_by_a_name_of_resends"),),
    ),
)
