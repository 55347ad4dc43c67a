"""Faults in mail by webhook: acknowledged and not stored, stored twice, or for the wrong inbox."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_RECEIVER = "src/oncebox/server/webhooks/inbound_mail.py"
_INTAKE = "src/oncebox/ledger/inboxes/mail_intake.py"
_TABLES = "src/oncebox/webhooks/inbound.py"
_COMPILED = "src/oncebox/server/webhooks/request_verification.py"
_POSTAL = "src/oncebox/webhooks/custom/postal.py"
_CIPHERS = "src/oncebox/ledger/ciphers.py"
_AWS = "tests/server/webhooks/test_inbound_aws.py"
_MAIL = "tests/server/webhooks/test_inbound_mail.py"


def _tests(*names: str, file: str = _MAIL) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{file}::{name}" for name in names)),)


def _one(name: str, file: str, old: str, new: str, killers: tuple[Selection, ...]) -> Mutant:
    return Mutant(name, (Patch(file, old, new),), killers)


INBOUND = (
    _one(
        "inbound-mail-is-acknowledged-without-a-commit",
        _INTAKE,
        "            return await self._webhook_group.submit(mail)\n",
        "            self._webhook_group.enqueue(mail)\n            return []\n",
        _tests("test_a_mail_that_is_not_committed_is_not_acknowledged"),
    ),
    _one(
        "inbound-mail-of-another-tenant-is-routed",
        _RECEIVER,
        "            if route.tenant != compiled.source.tenant:\n",
        "            if not route.tenant:\n",
        _tests("test_mail_for_an_inbox_of_another_tenant_is_for_nobody"),
    ),
    _one(
        "inbound-provider-id-is-no-key",
        _INTAKE,
        "            if provider_id\n",
        "            if not provider_id\n",
        _tests("test_the_same_provider_id_is_the_same_mail_whatever_its_bytes"),
    ),
    _one(
        "inbound-provider-id-counts-for-all-sources",
        _CIPHERS,
        '        text = f"{source}\\0{provider_id}".encode("utf-8", "surrogatepass")\n',
        '        text = f"{provider_id}".encode("utf-8", "surrogatepass")\n',
        _tests("test_the_same_id_from_another_source_is_another_mail"),
    ),
    _one(
        "inbound-provider-id-and-mail-share-a-key",
        _CIPHERS,
        'return hmac.digest(self._provider_key, text, "sha256")',
        'return hmac.digest(self._mail_key, text, "sha256")',
        _tests(
            "test_a_provider_s_id_is_a_key_that_no_mail_can_have",
            file="tests/contract/inboxes/test_webhook_mail.py",
        ),
    ),
    _one(
        "inbound-gone-body-is-an-empty-mail",
        _RECEIVER,
        "        if answer.status in _GONE:\n            raise InboundBodyGone\n",
        '        if answer.status in _GONE:\n            return b"{}"\n',
        _tests("test_mail_in_s3_is_fetched_before_it_is_acknowledged"),
    ),
    _one(
        "inbound-any-bucket-is-fetched",
        _RECEIVER,
        "        if where.bucket not in options.buckets:\n",
        "        if not where.bucket:\n",
        _tests("test_mail_is_only_fetched_from_buckets_that_the_source_lists"),
    ),
    _one(
        "inbound-fetch-key-verifies-requests",
        _COMPILED,
        "    active = [each for each in source.secrets if each.value not in keys]\n",
        "    active = list(source.secrets)\n",
        _tests("test_a_key_for_fetching_verifies_no_request"),
    ),
    _one(
        "inbound-full-inbox-is-acknowledged",
        _RECEIVER,
        "        if is_full:  # the others have it; a repeat is a duplicate there\n"
        "            raise InboundInboxFull\n",
        "",
        _tests("test_a_full_inbox_delays_a_mail_that_the_others_get_at_once"),
    ),
    _one(
        "inbound-unverified-client-is-believed",
        _TABLES,
        '            provider_id=_id(_text(fields, "token")),\n',
        '            provider_id=_id(_text(fields, "token")),\n'
        '            client=_text(fields, "sender") and "192.0.2.1",\n',
        _tests("test_the_client_is_believed_only_where_the_signature_covers_it"),
    ),
    _one(
        "inbound-push-is-not-noted",
        _INTAKE,
        "            mailboxes.note_push(tx, tenant, source, now)\n",
        "            del tenant, source\n",
        _tests("test_mail_by_webhook_lets_its_mailbox_wait"),
    ),
    _one(
        "inbound-postal-refusals-bounce",
        _TABLES,
        "                temporary=0,\n                unverified=0,\n",
        "",
        _tests("test_the_answers_are_those_that_the_provider_understands",
               file="tests/webhooks/test_inbound.py"),
    ),
    _one(
        "inbound-postal-newer-signature-is-optional",
        _POSTAL,
        "    is_newer = _SHA256_HEADER in request.headers_by_name\n",
        "    is_newer = context.scheme.header_names[0] not in request.headers_by_name\n",
        _tests("test_a_wrong_newer_signature_of_postal_is_not_excused_by_the_older",
               file="tests/webhooks/test_custom.py"),
    ),
    _one(
        "inbound-s3-signature-without-the-region",
        "src/oncebox/core/aws_signature.py",
        '    for each in (at[:8], region, service, "aws4_request"):\n',
        '    for each in (at[:8], service, "aws4_request"):\n',
        _tests("test_mail_in_s3_is_fetched_with_a_signature_that_is_checked", file=_AWS),
    ),
    _one(
        "inbound-sns-of-any-topic",
        "src/oncebox/webhooks/custom/sns.py",
        '    if message.text("TopicArn") not in context.options.topics:\n',
        "    if not context.options.topics:\n",
        _tests("test_a_topic_of_somebody_else_is_refused_unread", file=_AWS),
    ),
)  # fmt: skip
