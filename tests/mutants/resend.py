"""Faults in mail by Resend: a second mail, a proof that is none, a word that nobody may say."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_WAY = "src/oncebox/transports/resend.py"
_EVENTS = "src/oncebox/transports/resend.py"
_EGRESS = "src/oncebox/core/egress.py"
_SQL = "src/oncebox/ledger/sends/evidence.sql"
_LEDGER = "src/oncebox/ledger/sends/evidence.py"
_WORKER = "src/oncebox/workers/deliveries/send_evidence.py"
_PLAYED = "src/oncebox/testing/resend.py"


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{file}::{name}" for name in names)),)


def _out(*names: str) -> tuple[Selection, ...]:
    return _tests("tests/transports/test_resend.py", *names)


def _heard(*names: str) -> tuple[Selection, ...]:
    return _tests("tests/contract/sends/test_evidence.py", *names)


def _hooks(*names: str) -> tuple[Selection, ...]:
    return _tests("tests/contract/sends/test_resend_events.py", *names)


def _one(name: str, file: str, old: str, new: str, killers: tuple[Selection, ...]) -> Mutant:
    return Mutant(name, (Patch(file, old, new),), killers)


_MEANS = "test_an_answer_means_what_is_written"
_SAME = "test_a_repeat_is_the_same_bytes_and_is_answered_as_the_first"

RESEND = (
    # the way out
    _one(
        "resend: a marker before the connection",
        _WAY,
        "        async with deadline_timeout(mail.deadline) as limit:\n",
        "        await marker()\n        async with deadline_timeout(mail.deadline) as limit:\n",
        _out("test_where_nobody_listens_the_marker_is_not_asked"),
    ),
    _one(
        "resend: a body without its marker",
        _WAY,
        "        if not marked:\n",
        "        if marked is None:\n",
        _out("test_without_the_marker_nothing_is_transmitted"),
    ),
    _one(
        "resend: a marker that comes too late and counts",
        _WAY,
        "        if clock.steady() >= mail.deadline:\n",
        "        if clock.steady() < 0:\n",
        _out("test_a_marker_that_comes_too_late_for_the_deadline_sends_nothing"),
    ),
    _one(
        "resend: a commit that is cut short",
        _WAY,
        "        limit.reschedule(None)\n",
        "",
        _out("test_a_marker_is_not_cut_short"),
    ),
    _one(
        "resend: an error of ours taken for the world's",
        _WAY,
        "            progress.marker_error = error\n",
        "",
        _out("test_an_error_of_the_marker_is_raised_and_nothing_is_transmitted"),
    ),
    _one(
        "resend: a lost answer that counts as not sent",
        _WAY,
        "    if progress.phase is SendPhase.HANDED_OVER:\n",
        "    if progress.phase is SendPhase.ANSWERED:\n",
        _out(_MEANS),
    ),
    _one(
        "resend: an error of the server that counts as not sent",
        _WAY,
        "_REFUSAL_STATUSES = frozenset({400, 404, 405, 413, 422})",
        "_REFUSAL_STATUSES = frozenset({400, 404, 405, 413, 422, 500})",
        _out(_MEANS),
    ),
    _one(
        "resend: a conflict that counts as refused",
        _WAY,
        "_REFUSAL_STATUSES = frozenset({400, 404, 405, 413, 422})",
        "_REFUSAL_STATUSES = frozenset({400, 404, 405, 409, 413, 422})",
        _out(_MEANS, "test_a_conflict_that_does_not_say_which_is_unknown"),
    ),
    _one(
        "resend: a success without a name",
        _WAY,
        '        id_ = _response_field(reply, "id", _PROVIDER_ID)\n',
        '        id_ = _response_field(reply, "id", _PROVIDER_ID) or "?"\n',
        _out("test_success_without_a_readable_id_is_unknown"),
    ),
    _one(
        "resend: a wrong key that burns mail",
        _WAY,
        "_AUTH_STATUSES = frozenset({401, 403})",
        "_AUTH_STATUSES = frozenset({403})",
        _out(_MEANS),
    ),
    _one(
        "resend: one bad sender that closes the way",
        _WAY,
        '_SENDER_ERRORS = frozenset({"validation_error", "invalid_from_address"})',
        "_SENDER_ERRORS = frozenset[str]()",
        _out("test_a_sender_that_is_not_verified_closes_the_way_for_nobody_else"),
    ),
    _one(
        "resend: an early answer that counts",
        _WAY,
        "    if phase in {SendPhase.CONNECT, SendPhase.BODY, SendPhase.MARKED}:\n",
        "    if phase is SendPhase.GREETED:\n",
        _out("test_what_is_answered_before_the_body_was_asked_for_is_not_sent"),
    ),
    _one(
        "resend: other bytes at every try",
        _WAY,
        "{**email.tags, SEND_ID_TAG: mail.send_id}",
        '{**email.tags, SEND_ID_TAG: str(clock.steady()).replace(".", "_")}',
        _out(_SAME),
    ),
    _one(
        "resend: another key at every try",
        _WAY,
        '"idempotency-key": mail.provider_key}\n',
        '"idempotency-key": f"{mail.provider_key}{clock.steady()}"}\n',
        _out(_SAME),
    ),
    _one(
        "resend: a connection that is used again",
        _EGRESS,
        "            max_keepalive_connections=0,\n",
        "",
        _out("test_every_hand_over_has_a_connection_of_its_own"),
    ),
    _one(
        "resend: an answer without an end",
        _EGRESS,
        "            if len(body) > most:\n                return None\n",
        "",
        _tests(
            "tests/core/test_egress.py",
            "test_an_answer_that_is_too_long_or_too_short_keeps_its_status_only",
        ),
    ),
    _one(
        "resend: a mismatch that is tried again",
        "src/oncebox/workers/sends/send_worker.py",
        " or outcome.code == KEY_MISMATCH:\n",
        ":\n",
        _hooks("test_a_key_that_said_something_else_waits_for_a_person"),
    ),
    # evidence
    _one(
        "evidence: proof for what never left",
        _SQL,
        "(tagged.transport = :transport AND tagged.marked_at IS NOT NULL)",
        "(tagged.transport = :transport)",
        _heard("test_what_was_never_on_the_wire_was_taken_by_nobody"),
    ),
    _one(
        "evidence: a tag that outranks a name",
        _SQL,
        "    AND tagged.provider_id = ''\n",
        "",
        _heard("test_a_tag_counts_for_nobody_who_has_another_name"),
    ),
    _one(
        "evidence: a name that the tag does not mean",
        _LEDGER,
        '        if events[position].send_id in {"", id_}\n',
        "",
        _heard("test_a_name_counts_for_nobody_whom_the_tag_does_not_mean"),
    ),
    _one(
        "evidence: two names for one send",
        _LEDGER,
        "    return _without_rivals(events, about)\n",
        "    return about\n",
        _heard("test_of_two_names_for_one_send_the_first_counts"),
    ),
    _one(
        "evidence: a tenant that speaks for another by name",
        _SQL,
        "WHERE known.tenant = :tenant AND known.provider_id = :provider_id",
        "WHERE known.provider_id = :provider_id AND :tenant <> ''",
        _heard("test_evidence_of_another_tenant_is_ignored"),
    ),
    _one(
        "evidence: a tenant that speaks for another by tag",
        _SQL,
        "WHERE tagged.tenant = :tenant AND tagged.id = :send_id",
        "WHERE tagged.id = :send_id AND :tenant <> ''",
        _heard("test_evidence_of_another_tenant_is_ignored"),
    ),
    _one(
        "evidence: a way that speaks for another by name",
        _SQL,
        "    AND (known.transport = :transport OR EXISTS (\n",
        "    AND (:transport <> '' OR EXISTS (\n",
        _heard("test_evidence_of_another_transport_is_ignored"),
    ),
    _one(
        "evidence: a way that speaks for another by tag",
        _SQL,
        "((tagged.transport = :transport AND tagged.marked_at",
        "((:transport <> '' AND tagged.marked_at",
        _heard("test_evidence_of_another_transport_is_ignored"),
    ),
    _one(
        "evidence: a way that is forgotten once it is left",
        _SQL,
        "            AND tried.transport = :transport AND tried.marked_at IS NOT NULL\n",
        "            AND tried.transport = :transport AND tried.marked_at IS NULL\n",
        _heard("test_the_way_that_a_send_left_still_has_its_say"),
    ),
    _one(
        "evidence: a weaker word that counts",
        _SQL,
        " AND delivery_strength < :strength\n",
        " AND delivery_strength <> :strength\n",
        _heard(
            "test_a_weaker_word_never_replaces_a_stronger_one",
            "test_in_whatever_order_words_come_the_strongest_stays",
        ),
    ),
    _one(
        "evidence: a word heard again that lists again",
        _SQL,
        " AND mark = :mark AND listed < :strength\n",
        " AND mark = :mark AND listed <= :strength\n",
        _heard("test_a_replay_does_not_undo_what_a_person_did"),
    ),
    _one(
        "evidence: a stranger on the list",
        _LEDGER,
        "        if ref in noted\n",
        "",
        _heard("test_only_recipients_of_the_very_send_are_listed"),
    ),
    _one(
        "evidence: a soft bounce that lists",
        _EVENTS,
        "    return ProviderStatus.BOUNCED if is_hard else ProviderStatus.SOFT_BOUNCED\n",
        "    return ProviderStatus.SOFT_BOUNCED if is_hard is None else ProviderStatus.BOUNCED\n",
        _tests("tests/transports/test_resend_events.py", "test_only_a_bounce_for_good_is_one"),
    ),
    _one(
        "evidence: a source that nobody signs",
        _WORKER,
        "            if source is not None and source.scheme in _SIGNED_SCHEMES:\n",
        "            if source is not None:\n",
        _hooks("test_an_unsigned_source_proves_nothing"),
    ),
    _one(
        "evidence: a delivery that nobody signed",
        _WORKER,
        "        if delivery.verdict not in _VERIFIED:\n",
        '        if delivery.verdict == "none":\n',
        _hooks("test_what_a_program_puts_in_itself_proves_nothing"),
    ),
    _one(
        "evidence: a handler that runs first",
        _WORKER,
        "        events = await self.read(delivery)\n        if events:\n",
        "        events = await self.read(delivery)\n        if False:\n",
        _hooks("test_the_ledger_hears_before_the_users_handler_runs"),
    ),
    _one(
        "evidence: a source that its handler loses",
        _WORKER,
        " if place not in self._handled_sources]\n",
        "]\n",
        _hooks("test_the_ledger_hears_before_the_users_handler_runs"),
    ),
    _one(
        "evidence: a handler that nobody knows of",
        _WORKER,
        "            await self._evidence.announce_handled(own)\n",
        "",
        _hooks("test_the_ledger_hears_before_the_users_handler_runs"),
    ),
    _one(
        "evidence: a pulled source that is claimed",
        _WORKER,
        ' and source.mode == "handler"\n',
        "\n",
        _hooks("test_a_source_that_is_pulled_is_left_to_those_who_pull"),
    ),
    # the provider of the tests
    _one(
        "provider: a key that is free while it is used",
        _PLAYED,
        "        if known is not None and known.request is request:\n",
        "        if known is not None:\n",
        _tests(
            "tests/testing/test_provider.py",
            "test_a_key_under_way_is_refused_until_its_answer_is_given",
        ),
    ),
    _one(
        "provider: a key that takes any payload",
        _PLAYED,
        "    if known.payload != said:\n",
        "    if not said:\n",
        _tests(
            "tests/testing/test_provider.py",
            "test_a_key_belongs_to_one_payload_of_one_endpoint_of_one_account",
        ),
    ),
    _one(
        "provider: a key that is never forgotten",
        _PLAYED,
        "        return None if known is None or known.at <= now - KEY_LIFETIME else known\n",
        "        return known if now else None\n",
        _tests(
            "tests/testing/test_provider.py", "test_a_key_is_answered_as_the_first_time_for_a_day"
        ),
    ),
)
