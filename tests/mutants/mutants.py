"""The faults: what is planted, and which tests or tortures must turn red."""

from dataclasses import dataclass

from tests.mutants.workshop import Killer, Patch, Selection, Torture


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault, and everything that must catch it."""

    name: str
    patches: tuple[Patch, ...]
    killers: tuple[Killer, ...]


_DELIVERIES = "src/oncebox/ledger/deliveries"
_HOOKS = "tests/server/webhooks/test_endpoint.py"
_HANDSHAKES = "tests/webhooks/test_handshakes.py"
_READING = "tests/webhooks/test_event_parsing.py"
_ODD = "tests/webhooks/test_custom.py"
_VERIFICATION = "tests/webhooks/test_verification.py"
_MIGRATIONS = "src/oncebox/db/migrations"
_SETTLEMENTS = "tests/contract/deliveries/test_settlements.py"
_WALKS = Selection(
    ("tests/statemachine/test_machine.py::test_the_ledger_keeps_its_promises_on_long_walks",)
)


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


def _crash_points(*rules: str) -> Torture:
    return Torture("ledger-crash-points", "sqlite", rules)


def _zombies(*rules: str) -> Torture:
    return Torture("ledger-zombies", "sqlite", rules)


MUTANTS = (
    Mutant(
        "acknowledged before the commit",
        (
            Patch(
                f"{_DELIVERIES}/intake.py",
                "                accepted = await self._group.submit(new)\n",
                "                import asyncio\n"
                "                from oncebox.model.deliveries.delivery import DeliveryState\n"
                "                self._hasty = asyncio.ensure_future(self._group.submit(new))\n"
                "                accepted = Accepted(\n"
                "                    new.id, ArrivalKind.NEW, DeliveryState.RECEIVED\n"
                "                )\n",
            ),
        ),
        (_crash_points("lost"),),
    ),
    Mutant(
        "complete without the fence",
        (
            Patch(
                f"{_DELIVERIES}/settlements.sql",
                "outcome = :outcome, ended_at = :now\n/* from rows */\n"
                "WHERE id = :id AND state || '' = 'processing' AND fence = :fence",
                "outcome = :outcome, ended_at = :now\n/* from rows */\n"
                "WHERE id = :id AND state || '' = 'processing'",
            ),
        ),
        (
            _tests(_SETTLEMENTS, "test_a_stale_worker_cannot_settle"),
            _zombies("stale"),
        ),
    ),
    Mutant(
        "settle without the fence",
        (
            Patch(
                f"{_DELIVERIES}/settlements.sql",
                "THEN 1 ELSE heavy END\n/* from rows */\n"
                "WHERE id = :id AND state || '' = 'processing' AND fence = :fence",
                "THEN 1 ELSE heavy END\n/* from rows */\n"
                "WHERE id = :id AND state || '' = 'processing'",
            ),
        ),
        (
            _tests(_SETTLEMENTS, "test_a_stale_worker_cannot_fail_or_give_back"),
            _zombies("stale"),
        ),
    ),
    Mutant(
        "settle without a look at the state",
        (
            Patch(
                f"{_DELIVERIES}/settlements.sql",
                "outcome = :outcome, ended_at = :now\n/* from rows */\n"
                "WHERE id = :id AND state || '' = 'processing' AND fence = :fence",
                "outcome = :outcome, ended_at = :now\n/* from rows */\n"
                "WHERE id = :id AND fence = :fence",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_leases.py",
                "test_a_buried_delivery_cannot_be_settled_by_its_worker",
            ),
        ),
    ),
    Mutant(
        "renew without the fence",
        (
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "SET due_at = :until\n/* from rows */\n"
                "WHERE id = :id AND state || '' = 'processing' AND fence = :fence",
                "SET due_at = :until\n/* from rows */\n"
                "WHERE id = :id AND state || '' = 'processing'",
            ),
        ),
        (_tests("tests/contract/deliveries/test_leases.py", "test_a_stale_worker_cannot_renew"),),
    ),
    Mutant(
        "begin an effect without the fence",
        (
            Patch(
                f"{_DELIVERIES}/effects.sql",
                "WHERE id = :delivery_id AND fence = :fence AND state || '' = 'processing'\n)",
                "WHERE id = :delivery_id\n)",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_effects.py",
                "test_a_stale_worker_cannot_begin_an_effect",
                "test_a_settled_try_cannot_begin_an_effect",
            ),
        ),
    ),
    Mutant(
        "a takeover that does not raise the fence",
        (
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "SET fence = fence + 1, tries = tries + 1, worker = :worker, claimed_at = :now,",
                "SET tries = tries + 1, worker = :worker, claimed_at = :now,",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_leases.py", "test_the_fence_rises_with_every_claim"
            ),
            _zombies("stale", "doubled", "stuck", "crashed"),
        ),
    ),
    Mutant(
        "tries counted at failure",
        (
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "SET state = 'processing', fence = fence + 1, tries = tries + 1,"
                " worker = :worker,\n"
                "    claimed_at = :now, give_up_at = :give_up_at,",
                "SET state = 'processing', fence = fence + 1, worker = :worker,\n"
                "    claimed_at = :now, give_up_at = :give_up_at,",
            ),
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "SET state = 'processing', fence = fence + 1, tries = tries + 1,"
                " worker = :worker,\n"
                "    claimed_at = :now, give_up_at = gives_up_at,",
                "SET state = 'processing', fence = fence + 1, worker = :worker,\n"
                "    claimed_at = :now, give_up_at = gives_up_at,",
            ),
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "SET fence = fence + 1, tries = tries + 1, worker",
                "SET fence = fence + 1, worker",
            ),
            Patch(
                f"{_DELIVERIES}/settlements.sql",
                "tries = tries - :uncounted",
                "tries = tries + 1 - :uncounted",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_leases.py", "test_tries_are_counted_when_claimed"
            ),
        ),
    ),
    Mutant(
        "keys that are not unique",
        (
            *(
                Patch(
                    f"{_MIGRATIONS}/{kind}/0010_digests.sql",
                    "CREATE UNIQUE INDEX oncebox_deliveries_key_digest",
                    "CREATE INDEX oncebox_deliveries_key_digest",
                )
                for kind in ("sqlite", "postgres")
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_deduplication.py",
                "test_a_duplicate_is_answered_with_the_first_and_its_state",
            ),
            Torture("ledger-lost-commit-replies", "postgres", ("doubled", "split")),
        ),
    ),
    Mutant(
        "batch mates of a refused row refused with it",
        (
            Patch(
                "src/oncebox/db/group_commit.py",
                "            if len(pending) <= 1:\n",
                "            if len(pending) >= 1:\n",
            ),
        ),
        (
            _tests(
                "tests/contract/db/test_group_commit.py",
                "test_batch_mates_of_a_refused_row_are_accepted",
            ),
        ),
    ),
    Mutant(
        "the journal written after the call",
        (
            Patch(
                "src/oncebox/workers/deliveries/once.py",
                "        begun = await self._begin(request)\n"
                "        if begun.go:\n"
                "            return await self._call_and_journal(call, request)\n",
                "        known = await self._ledger.read(\n"
                "            effects.of_delivery, self._delivery.tenant, self._delivery.id\n"
                "        )\n"
                "        if name not in [each.name for each in known]:\n"
                "            faults.point('effect.started')\n"
                "            result = await self._call(call)\n"
                "            faults.point('effect.done-not-recorded')\n"
                "            await self._begin(request)\n"
                "            await self._finish(name, EffectState.DONE, "
                "result=encode_result(result))\n"
                "            return result\n"
                "        begun = await self._begin(request)\n",
            ),
        ),
        (_crash_points("doubled"),),
    ),
    Mutant(
        "commits that are not flushed",
        (Patch("src/oncebox/db/sqlite.py", '"synchronous = FULL"', '"synchronous = NORMAL"'),),
        (
            _tests(
                "tests/contract/db/test_transactions.py", "test_a_file_is_opened_for_durability"
            ),
            Torture("ledger-power-cut", "sqlite", ("lost",)),
        ),
    ),
    Mutant(
        "a lane left without its lock",
        (
            Patch(
                f"{_DELIVERIES}/lanes.sql",
                "UPDATE oncebox_lanes SET last_position = last_position\n"
                "/* from rows */ WHERE tenant = :tenant AND source = :source AND lane = :lane\n"
                "RETURNING tenant, source, lane, ruled;",
                "SELECT tenant, source, lane, ruled FROM oncebox_lanes /* and rows */\n"
                "WHERE tenant = :tenant AND source = :source AND lane = :lane;",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_races.py",
                "test_an_arrival_while_the_lane_empties_gets_its_turn",
                "test_a_lane_that_empties_while_something_arrives_moves_on",
            ),
        ),
    ),
    Mutant(
        "one delivery claimed by two workers",
        (
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "    ORDER BY due_at LIMIT :most FOR UPDATE SKIP LOCKED\n),\nwanted AS",
                "    ORDER BY due_at LIMIT :most\n),\nwanted AS",
            ),
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "WHERE leased.ctid = place AND fence = seen_fence"
                " AND state IN ('received', 'failed')\n",
                "WHERE leased.id = (SELECT found.id FROM oncebox_deliveries AS found"
                " WHERE found.ctid = place)\n",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_races.py", "test_two_claims_at_once_share_nothing"
            ),
        ),
    ),
    Mutant(
        "lost work claimed in batches",
        (
            Patch(
                f"{_DELIVERIES}/leases.sql",
                " AND heavy = :heavy\n    AND state IN ('received', 'failed')\n"
                "    AND due_at IS NOT NULL AND due_at >= :floor",
                " AND heavy = :heavy\n    AND state IN ('received', 'failed', 'processing')\n"
                "    AND due_at IS NOT NULL AND due_at >= :floor",
            ),
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "WHERE id = :id AND fence = :fence AND state IN ('received', 'failed')\n",
                "WHERE id = :id AND fence = :fence"
                " AND state IN ('received', 'failed', 'processing')\n",
            ),
            Patch(
                f"{_DELIVERIES}/leases.sql",
                " AND heavy = :heavy\n        AND state IN ('received', 'failed')\n"
                "        AND due_at IS NOT NULL AND due_at >= :floor",
                " AND heavy = :heavy\n"
                "        AND state IN ('received', 'failed', 'processing')\n"
                "        AND due_at IS NOT NULL AND due_at >= :floor",
            ),
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "AND fence = seen_fence AND state IN ('received', 'failed')\n",
                "AND fence = seen_fence\n",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_leases.py",
                "test_an_expired_delivery_is_claimed_alone",
            ),
        ),
    ),
    Mutant(
        "lost work never claimed again",
        (
            Patch(
                "src/oncebox/workers/deliveries/delivery_worker.py",
                "while not self._stopping.is_set() and await self._claimer.has_suspects():",
                "while False:",
            ),
        ),
        (_crash_points("stuck"),),
    ),
    Mutant(
        "what was lost twice claimed with others",
        (
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "    AND NOT EXISTS (SELECT 1 FROM oncebox_tries"
                " WHERE delivery_id = lost.id AND outcome = 'lost')\n",
                "",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_leases.py",
                "test_what_was_lost_once_is_claimed_together_and_what_was_lost_twice_is_not",
            ),
        ),
    ),
    Mutant(
        "a call made after its time",
        (
            Patch(
                "src/oncebox/workers/deliveries/once.py",
                "left = min(call.timeout, (request.surely_over_at - self._ledger.clock()) / 1000)",
                "left = call.timeout",
            ),
        ),
        (Torture("ledger-sleepers", "sqlite", ("doubled",)),),
    ),
    Mutant(
        "once treated as idempotent",
        (
            Patch(
                "src/oncebox/workers/deliveries/once.py",
                "if started and call.safe is Safety.IDEMPOTENT and in_window:",
                "if started and call.verify is None and in_window:",
            ),
        ),
        (_crash_points("doubled"),),
    ),
    Mutant(
        "an unknown commit taken for success",
        (
            Patch(
                f"{_DELIVERIES}/intake.py",
                "                accepted = await self._group.submit(new)\n",
                "                try:\n"
                "                    accepted = await self._group.submit(new)\n"
                "                except CommitUnknown:\n"
                "                    accepted = Accepted(\n"
                "                        new.id, ArrivalKind.NEW, DeliveryState.RECEIVED\n"
                "                    )\n",
            ),
            Patch(
                f"{_DELIVERIES}/intake.py",
                "from oncebox.errors import InputRefused, OnceboxError\n",
                "from oncebox.errors import CommitUnknown, InputRefused, OnceboxError\n"
                "from oncebox.model.deliveries.delivery import DeliveryState\n",
            ),
        ),
        (Torture("ledger-lost-commit-requests", "postgres", ("lost",)),),
    ),
    Mutant(
        "every settlement counted, however late",
        (
            Patch(
                f"{_DELIVERIES}/settlements.py",
                "_end_unfinished(tx, other, now) == len(settlements)",
                "_end_unfinished(tx, other, now) >= 0",
            ),
        ),
        (_tests(_SETTLEMENTS, "test_a_stale_worker_may_only_add_proof"),),
    ),
    Mutant(
        "a stale failure undoes what another began",
        (
            Patch(
                f"{_DELIVERIES}/effects.sql",
                "state = 'started' AND fence BETWEEN :since AND :fence",
                "state = 'started' AND fence >= :since",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_effects.py",
                "test_a_stale_failure_does_not_undo_what_the_current_worker_began",
            ),
        ),
    ),
    Mutant(
        "a transaction that does not look at its fence again",
        (
            Patch(
                f"{_DELIVERIES}/effects.py",
                "        if not tx.run(_sql.hold_fence,",
                "        if False and not tx.run(_sql.hold_fence,",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_effects.py",
                "test_a_transaction_that_lost_its_lease_meanwhile_is_undone",
            ),
        ),
    ),
    Mutant(
        "a stop that leaves a begun effect in doubt",
        (
            Patch(
                "src/oncebox/workers/deliveries/once.py",
                "            if (await beginning).go:\n",
                "            if False and (await beginning).go:\n",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_once.py",
                "test_an_effect_whose_journal_was_still_being_written_was_not_begun",
            ),
        ),
    ),
    Mutant(
        "a shortcut whose rows are not known again",
        (
            Patch(
                "src/oncebox/ledger/deliveries/deduplication.py",
                "        new = [each for each in unseen if known[_key(each)][0] == each.id]\n",
                "        new = []\n",
            ),
        ),
        (
            _tests(
                "tests/contract/db/test_group_commit.py",
                "test_the_shortcut_and_the_long_way_give_the_same_answers",
            ),
        ),
    ),
    Mutant(
        "two tries of one delivery taken for one",
        (
            Patch(
                "src/oncebox/workers/deliveries/delivery_worker.py",
                "    return (delivery.id, delivery.fence)\n",
                "    return (delivery.id, 0)\n",
            ),
        ),
        (Selection(("tests/integration/test_reclaim.py",)),),
    ),
    Mutant(
        "a connection lost while its clock is asked",
        (
            Patch(
                "src/oncebox/db/postgres.py",
                "        except psycopg.Error as error:\n            self.close()\n",
                "        except ZeroDivisionError as error:\n            self.close()\n",
            ),
        ),
        (Torture("ledger-cut-connections", "postgres", ("crashed", "refused")),),
    ),
    Mutant(
        "an answer without its hold",
        (
            Patch(
                "src/oncebox/ledger/admin/idempotency.sql",
                "SET answer = :answer, finished_at = :now\n"
                "WHERE tenant = :tenant AND route = :route AND key = :key AND holder = :holder\n"
                "    AND answer IS NULL",
                "SET answer = :answer, finished_at = :now\n"
                "WHERE tenant = :tenant AND route = :route AND key = :key AND :holder <> ''",
            ),
        ),
        (
            _tests(
                "tests/contract/admin/test_idempotency.py",
                "test_who_lost_the_request_cannot_commit_what_it_created",
            ),
        ),
    ),
    Mutant(
        "a takeover that does not look who was first",
        (
            Patch(
                "src/oncebox/ledger/admin/idempotency.sql",
                "AND holder = :seen\n    AND (started_at <= :forgotten OR (answer IS NULL AND "
                "started_at <= :lost));",
                "AND :seen <> '' AND :forgotten < :lost;",
            ),
        ),
        (
            _tests(
                "tests/contract/admin/test_idempotency.py",
                "test_two_takeovers_at_once_are_one",
                "test_a_repeat_while_the_first_runs_is_told_to_wait",
            ),
        ),
    ),
    Mutant(
        "sources changed out of turn",
        (
            Patch(
                "src/oncebox/ledger/admin/sources.py",
                "    tx.run(_sql.take_turn)\n",
                "    tx.one(_sql.revision)\n",
            ),
        ),
        (
            _tests(
                "tests/contract/admin/test_sources.py",
                "test_two_changes_at_once_are_both_kept",
                "test_every_change_gives_a_new_revision",
            ),
        ),
    ),
    Mutant(
        "addresses that may be shared",
        (
            *(
                Patch(
                    f"{_MIGRATIONS}/{kind}/0003_office.sql",
                    "CREATE UNIQUE INDEX oncebox_sources_public_id",
                    "CREATE INDEX oncebox_sources_public_id",
                )
                for kind in ("sqlite", "postgres")
            ),
        ),
        (
            _tests(
                "tests/contract/admin/test_sources.py",
                "test_an_address_is_taken_once_in_the_whole_installation",
                "test_two_who_want_one_address_at_once_are_told_apart",
            ),
            _tests(
                "tests/contract/deliveries/test_processes.py",
                "test_four_processes_that_want_the_same_addresses_get_each_once",
            ),
        ),
    ),
    Mutant(
        "a secret sealed for any row",
        (
            Patch(
                "src/oncebox/ledger/admin/sources.py",
                'f"oncebox_source_secrets\\0{tenant}\\0{id_}\\0sealed".encode()',
                'b"oncebox_source_secrets"',
            ),
        ),
        (
            _tests(
                "tests/contract/admin/test_source_cache.py",
                "test_a_secret_moved_to_another_row_does_not_open",
            ),
        ),
    ),
    Mutant(
        "a retired secret that still counts",
        (
            Patch(
                "src/oncebox/ledger/admin/source_cache.py",
                "            if not secret.is_active(now):\n                continue\n",
                "",
            ),
        ),
        (
            _tests(
                "tests/contract/admin/test_source_cache.py",
                "test_a_retired_secret_is_gone_from_the_book",
            ),
        ),
    ),
    Mutant(
        "a key believed for ever",
        (
            Patch(
                "src/oncebox/ledger/admin/api_keys.py",
                "if held is None or held.until <= self._steady():",
                "if held is None:",
            ),
        ),
        (
            _tests(
                "tests/contract/admin/test_api_key_cache.py",
                "test_a_revocation_is_seen_within_the_bound",
            ),
        ),
    ),
    Mutant(
        "a key revoked across tenants",
        (
            Patch(
                "src/oncebox/ledger/admin/api_keys.sql",
                "SET revoked_at = :now\nWHERE tenant = :tenant AND id = :id",
                "SET revoked_at = :now\nWHERE :tenant <> '' AND id = :id",
            ),
            Patch(
                "src/oncebox/ledger/admin/api_keys.sql",
                "FROM oncebox_keys WHERE tenant = :tenant AND id = :id;",
                "FROM oncebox_keys WHERE :tenant <> '' AND id = :id;",
            ),
        ),
        (
            _tests(
                "tests/contract/admin/test_api_keys.py",
                "test_a_missing_key_and_a_foreign_one_look_the_same",
            ),
        ),
    ),
    Mutant(
        "hook: acknowledged before the commit",
        (
            Patch(
                "src/oncebox/server/webhooks/endpoint.py",
                "        await request_verification.store_events(self._intake, compiled, "
                "request, verified)\n",
                "        import asyncio\n"
                "        storing = request_verification.store_events(self._intake, compiled, "
                "request, verified)\n"
                "        self._hasty = asyncio.ensure_future(storing)\n",
            ),
            Patch(
                "src/oncebox/server/webhooks/endpoint.py",
                "            self._intake.enqueue(new, _StoredResponse(exchange, "
                "self._telemetry))\n",
                "            hasty: asyncio.Future[Accepted] = (\n"
                "                asyncio.get_running_loop().create_future()\n"
                "            )\n"
                "            self._intake.enqueue(new, hasty)\n"
                "            exchange.respond(200, _ACCEPTED_HEADERS, _ACCEPTED.body)\n",
            ),
        ),
        (Torture("hooks-kill", "sqlite", ("lost",)),),
    ),
    Mutant(
        "hook: a body under a fresh unsigned id is new",
        (
            Patch(
                "src/oncebox/server/webhooks/request_verification.py",
                '        "unsigned": not event.id_signed,\n',
                '        "unsigned": False,\n',
            ),
            Patch(
                "src/oncebox/server/webhooks/request_verification.py",
                "unsigned=not event.id_signed,\n        road",
                "unsigned=False,\n        road",
            ),
        ),
        (
            _tests(
                _HOOKS,
                "test_a_fresh_unsigned_id_over_a_known_body_is_held",
                "test_racing_replays_run_once",
            ),
        ),
    ),
    Mutant(
        "hook: a paused source answers 200",
        (
            Patch(
                "src/oncebox/server/webhooks/endpoint.py",
                "                self._telemetry.count_store_error(_PATH, error)\n"
                "            self._refuse(exchange, error)\n",
                "                self._telemetry.count_store_error(_PATH, error)\n"
                "            if error.code == 'source_paused':\n"
                "                exchange.respond(200, _ACCEPTED_HEADERS, _ACCEPTED.body)\n"
                "            self._refuse(exchange, error)\n",
            ),
        ),
        (_tests(_HOOKS, "test_unknown_paused_and_unready_sources"),),
    ),
    Mutant(
        "hook: slow clients have all the time they like",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "        elif now >= self._until or (self.stage is Stage.BODY",
                "        elif (self.stage is Stage.BODY",
            ),
        ),
        (Torture("hooks-slow-clients", "sqlite", ("open",)),),
    ),
    Mutant(
        "hook: the beginning of a signature is enough",
        (
            Patch(
                "src/oncebox/webhooks/verification.py",
                "                if hmac.compare_digest(write(digest), candidate):\n",
                "                if write(digest).startswith(candidate):\n",
            ),
        ),
        (_tests(_VERIFICATION, "test_only_the_whole_signature_passes"),),
    ),
    Mutant(
        "hook: a blank secret is a key",
        (
            Patch(
                "src/oncebox/webhooks/signing.py",
                "for index, secret in enumerate(secrets) if secret.strip()]",
                "for index, secret in enumerate(secrets)]",
            ),
            Patch(
                "src/oncebox/webhooks/signing.py",
                "        if key:\n",
                "        if key is not None:\n",
            ),
        ),
        (_tests(_VERIFICATION, "test_whoever_signs_with_nothing_is_refused"),),
    ),
    Mutant(
        "hook: a window open to the future",
        (
            Patch(
                "src/oncebox/webhooks/verification.py",
                '        raise SignatureInvalid("future")\n',
                "        return Freshness.FRESH\n",
            ),
        ),
        (
            _tests(
                _VERIFICATION,
                "test_the_window_is_open_to_both_sides_and_its_edges_are_inside",
            ),
        ),
    ),
    Mutant(
        "hook: the last of two signature headers counts",
        (
            Patch(
                "src/oncebox/webhooks/http_request.py",
                "names.count(name) > 1:",
                "names.count(name) > 2:",
            ),
        ),
        (_tests(_VERIFICATION, "test_a_signature_that_is_there_twice_is_refused"),),
    ),
    Mutant(
        "hook: a public key taken for a shared secret",
        (
            Patch(
                "src/oncebox/webhooks/custom/standard_webhooks.py",
                '    version = "v1a" if secret.startswith(signing.PUBLIC_KEY_PREFIX) else "v1"\n',
                '    version = "v1"\n    secret = secret.removeprefix(signing.PUBLIC_KEY_PREFIX)\n',
            ),
        ),
        (_tests(_VERIFICATION, "test_a_key_serves_one_algorithm_only"),),
    ),
    Mutant(
        "hook: any topic is let in",
        (
            Patch(
                "src/oncebox/webhooks/custom/sns.py",
                '    if message.text("TopicArn") not in context.options.topics:\n',
                '    if message.text("TopicArn") == "":\n',
            ),
        ),
        (_tests(_ODD, "test_only_listed_topics_are_let_in"),),
    ),
    Mutant(
        "hook: a certificate from any host of the domain",
        (
            Patch(
                "src/oncebox/webhooks/custom/sns.py",
                'r"https://sns\\.[a-z0-9-]{3,40}\\.amazonaws\\.com(?:\\.cn)?"',
                'r"https://[a-z0-9.-]*\\.?amazonaws\\.com(?:/[a-z0-9.-]+)?"',
            ),
        ),
        (_tests(_ODD, "test_a_certificate_comes_from_its_pinned_address_only"),),
    ),
    Mutant(
        "hook: an empty form in the place of a hashed body",
        (
            Patch(
                "src/oncebox/webhooks/custom/twilio_mandrill.py",
                "    if hashes:\n",
                "    if hashes and request.body:\n",
            ),
        ),
        (_tests(_ODD, "test_twilio_covers_json_by_a_hash_in_the_address"),),
    ),
    Mutant(
        "hook: the weaker of two versions rescues the stronger",
        (
            Patch(
                "src/oncebox/webhooks/custom/hook0.py",
                '    strong = "v1" in parts\n',
                '    strong = "v0" not in parts\n',
            ),
        ),
        (_tests(_ODD, "test_hook0_takes_the_stronger_of_two_versions"),),
    ),
    Mutant(
        "hook: a handshake hashes what it is asked to",
        (
            Patch(
                "src/oncebox/webhooks/handshakes.py",
                "    if not _PLAIN_TOKEN.fullmatch(token):\n",
                "    if not token:\n",
            ),
        ),
        (
            _tests(_HANDSHAKES, "test_zooms_answer_is_no_signature_of_an_event"),
            _tests(_HANDSHAKES, "test_xs_answer_is_no_signature_of_an_event"),
        ),
    ),
    Mutant(
        "hook: a header that nobody signed passes for signed",
        (
            Patch(
                "src/oncebox/webhooks/event_parsing.py",
                "signed or self._are_headers_signed(pieces)",
                "True",
            ),
        ),
        (_tests(_READING, "test_ids_and_types_in_plain_headers_are_not"),),
    ),
    Mutant(
        "hook: an id from a family of headers that was not verified",
        (
            Patch(
                "src/oncebox/webhooks/event_parsing.py",
                "standard_webhooks.header_prefix(self._request) + piece.name",
                '"webhook-" + piece.name',
            ),
        ),
        (_tests(_READING, "test_an_id_is_read_from_the_family_that_was_verified"),),
    ),
    Mutant(
        "hook: what a body makes a verifier raise flies out",
        (
            Patch(
                "src/oncebox/webhooks/paths.py",
                "DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)",
                "DECODE_ERRORS = (msgspec.ValidationError,)",
            ),
        ),
        (
            _tests(
                "tests/webhooks/test_hostile.py",
                "test_nothing_foreign_comes_out_of_a_verifier",
                "test_reading_never_fails_and_what_it_reads_can_be_stored",
            ),
        ),
    ),
    Mutant(
        "bodies that may come again under unsigned keys",
        tuple(
            Patch(
                f"{_MIGRATIONS}/{kind}/0010_digests.sql",
                "CREATE UNIQUE INDEX oncebox_deliveries_body_digest",
                "CREATE INDEX oncebox_deliveries_body_digest",
            )
            for kind in ("sqlite", "postgres")
        ),
        (
            _tests(
                "tests/contract/deliveries/test_unsigned.py",
                "test_a_known_body_under_a_fresh_unsigned_key_is_held_as_a_suspicious_replay",
                "test_of_two_unsigned_arrivals_of_one_body_at_once_one_is_new",
            ),
            _WALKS,
        ),
    ),
    Mutant(
        "a replay that brings dead work back",
        (
            Patch(
                "src/oncebox/ledger/deliveries/deduplication.sql",
                "variant = '' AND replay_of IS NULL\n",
                "variant = ''\n",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_unsigned.py",
                "test_a_dead_replay_is_never_brought_back_and_a_failed_one_not_forward",
            ),
            _WALKS,
        ),
    ),
    Mutant(
        "numbers that are never stale",
        (
            Patch(
                "src/oncebox/ledger/deliveries/lanes.sql",
                "state = 'received' AND skip_stale = 1 AND sequence < (",
                "state = 'received' AND skip_stale = 1 AND sequence < 0 * (",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_ordering.py",
                "test_a_number_below_the_highest_done_is_skipped_as_stale",
            ),
            _WALKS,
        ),
    ),
    Mutant(
        "every number stale that may be skipped",
        (
            Patch(
                "src/oncebox/ledger/deliveries/lanes.sql",
                "state = 'received' AND skip_stale = 1 AND sequence < (",
                "state = 'received' AND skip_stale = 1 AND 0 < (",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_ordering.py",
                "test_numbers_run_from_the_lowest_up_whatever_order_they_come_in",
            ),
        ),
    ),
    Mutant(
        "a turn given while another is worked on",
        (
            Patch(
                "src/oncebox/ledger/deliveries/lanes.py",
                "_STARTED = {DeliveryState.PROCESSING, DeliveryState.FAILED}",
                "_STARTED = {DeliveryState.HELD}",
            ),
            Patch(
                "src/oncebox/ledger/deliveries/lanes.sql",
                "            AND other.state = 'processing'\n",
                "            AND other.state = 'nothing'\n",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_ordering.py", "test_what_was_begun_is_not_overtaken"
            ),
        ),
    ),
    Mutant(
        "a claim by request key that claims anew",
        (
            Patch(
                f"{_DELIVERIES}/pull.py",
                "    if not reserved:\n"
                "        return PulledDeliveries(_repeat_claim(tx, ask, sources), [])\n",
                "",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_pull.py",
                "test_a_repeated_claim_gets_the_same_leases",
                "test_two_claims_with_one_key_at_once_are_told_the_same",
            ),
        ),
    ),
    Mutant(
        "bodies that go while their work runs again",
        (
            Patch(
                "src/oncebox/ledger/deliveries/operations.sql",
                "AND state IN ('done', 'dead') AND purged_at IS NULL",
                "AND state IN ('done', 'dead')",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_retention.py",
                "test_a_replay_without_a_body_is_refused_clearly",
                "test_a_replay_while_the_body_goes_is_refused",
            ),
        ),
    ),
    Mutant(
        "a rejected request admitted as often as one likes",
        (
            Patch(
                f"{_DELIVERIES}/quarantine.sql",
                "DELETE FROM oncebox_quarantine WHERE tenant = :tenant AND id = :id "
                "RETURNING source;",
                "SELECT source FROM oncebox_quarantine WHERE tenant = :tenant AND id = :id;",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_quarantine.py",
                "test_a_request_is_admitted_once",
                "test_of_two_who_admit_a_request_at_once_one_does",
            ),
        ),
    ),
)
