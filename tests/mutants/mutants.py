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
_MIGRATIONS = "src/oncebox/store/migrations"
_SETTLEMENTS = "tests/contract/test_settlements.py"
_CONTRACT = "tests/contract"


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
                "            accepted = await group.submit(new)\n",
                "            import asyncio\n"
                "            from oncebox.model.delivery import State\n"
                "            self._hasty = asyncio.ensure_future(group.submit(new))\n"
                "            accepted = Accepted(new.id, Arrival.NEW, State.RECEIVED)\n",
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
                "WHERE id = :id AND state = 'processing' AND fence = :fence",
                "outcome = :outcome, ended_at = :now\n/* from rows */\n"
                "WHERE id = :id AND state = 'processing'",
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
                "tries = tries - :uncounted\n/* from rows */\n"
                "WHERE id = :id AND state = 'processing' AND fence = :fence",
                "tries = tries - :uncounted\n/* from rows */\n"
                "WHERE id = :id AND state = 'processing'",
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
                "WHERE id = :id AND state = 'processing' AND fence = :fence",
                "outcome = :outcome, ended_at = :now\n/* from rows */\n"
                "WHERE id = :id AND fence = :fence",
            ),
        ),
        (
            _tests(
                f"{_CONTRACT}/test_leases.py",
                "test_a_buried_delivery_cannot_be_settled_by_its_worker",
            ),
            _zombies("stale"),
        ),
    ),
    Mutant(
        "renew without the fence",
        (
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "SET due_at = :until\n/* from rows */\n"
                "WHERE id = :id AND state = 'processing' AND fence = :fence",
                "SET due_at = :until\n/* from rows */\nWHERE id = :id AND state = 'processing'",
            ),
        ),
        (_tests(f"{_CONTRACT}/test_leases.py", "test_a_stale_worker_cannot_renew"),),
    ),
    Mutant(
        "begin an effect without the fence",
        (
            Patch(
                f"{_DELIVERIES}/effects.sql",
                "WHERE id = :delivery_id AND fence = :fence AND state = 'processing'\n)",
                "WHERE id = :delivery_id\n)",
            ),
        ),
        (
            _tests(
                f"{_CONTRACT}/test_effects.py",
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
            _tests(f"{_CONTRACT}/test_leases.py", "test_the_fence_rises_with_every_claim"),
            _zombies("stale", "doubled", "stuck", "crashed"),
        ),
    ),
    Mutant(
        "tries counted at failure",
        (
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "SET state = 'processing', fence = fence + 1, tries = tries + 1,",
                "SET state = 'processing', fence = fence + 1,",
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
        (_tests(f"{_CONTRACT}/test_leases.py", "test_tries_are_counted_when_claimed"),),
    ),
    Mutant(
        "keys that are not unique",
        (
            *(
                Patch(
                    f"{_MIGRATIONS}/{kind}/0001_ledger.sql",
                    "CREATE UNIQUE INDEX oncebox_deliveries_key",
                    "CREATE INDEX oncebox_deliveries_key",
                )
                for kind in ("sqlite", "postgres")
            ),
            Patch(
                f"{_DELIVERIES}/arrivals.sql",
                "ON CONFLICT (tenant, source, key, variant) DO NOTHING;",
                "ON CONFLICT DO NOTHING;",
            ),
            Patch(
                f"{_DELIVERIES}/arrivals.sql",
                "ON CONFLICT (tenant, source, key, variant) DO NOTHING\n    RETURNING id",
                "ON CONFLICT DO NOTHING\n    RETURNING id",
            ),
        ),
        (
            _tests(
                f"{_CONTRACT}/test_arrivals.py",
                "test_a_duplicate_is_answered_with_the_first_and_its_state",
            ),
            Torture("ledger-lost-commit-replies", "postgres", ("doubled", "split")),
        ),
    ),
    Mutant(
        "batch mates of a refused row refused with it",
        (
            Patch(
                "src/oncebox/store/group.py",
                "            if len(batch) == 1:\n",
                "            if len(batch) >= 1:\n",
            ),
        ),
        (_tests(f"{_CONTRACT}/test_group.py", "test_batch_mates_of_a_refused_row_are_accepted"),),
    ),
    Mutant(
        "the journal written after the call",
        (
            Patch(
                "src/oncebox/worker/once.py",
                "        begun = await self._begin(wish)\n"
                "        if begun.go:\n"
                "            return await self._perform(call, wish)\n",
                "        from oncebox.ledger.deliveries import effects\n"
                "        journal = self._desk._database.read\n"
                "        known = await journal(\n"
                "            effects.of_delivery, self._delivery.tenant, self._delivery.id\n"
                "        )\n"
                "        if name not in [each.name for each in known]:\n"
                "            faults.point('effect.started')\n"
                "            result = await self._run(call)\n"
                "            faults.point('effect.done-not-recorded')\n"
                "            await self._begin(wish)\n"
                "            await self._finish(name, EffectState.DONE, result=_encoded(result))\n"
                "            return result\n"
                "        begun = await self._begin(wish)\n",
            ),
        ),
        (_crash_points("doubled"),),
    ),
    Mutant(
        "commits that are not flushed",
        (Patch("src/oncebox/store/sqlite.py", '"synchronous = FULL"', '"synchronous = NORMAL"'),),
        (
            _tests(f"{_CONTRACT}/test_transactions.py", "test_a_file_is_opened_for_durability"),
            Torture("ledger-power-cut", "sqlite", ("lost",)),
        ),
    ),
    Mutant(
        "a lane left without its lock",
        (
            Patch(
                f"{_DELIVERIES}/lanes.py",
                "        tx.run_many(_sql.lock, rows)\n",
                "",
            ),
        ),
        (
            _tests(
                f"{_CONTRACT}/test_races.py",
                "test_an_arrival_while_the_lane_empties_gets_its_turn",
                "test_a_lane_that_empties_while_something_arrives_moves_on",
            ),
        ),
    ),
    Mutant(
        "lost work claimed in batches",
        (
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "WHERE tenant = :tenant AND source = :source AND state IN ('received', 'failed')\n"
                "    AND due_at IS NOT NULL AND due_at >= :floor",
                "WHERE tenant = :tenant AND source = :source"
                " AND state IN ('received', 'failed', 'processing')\n"
                "    AND due_at IS NOT NULL AND due_at >= :floor",
            ),
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "WHERE id = :id AND fence = :fence AND state IN ('received', 'failed')\n",
                "WHERE id = :id AND fence = :fence"
                " AND state IN ('received', 'failed', 'processing')\n",
            ),
        ),
        (_tests(f"{_CONTRACT}/test_leases.py", "test_an_expired_delivery_is_claimed_alone"),),
    ),
    Mutant(
        "lost work never claimed again",
        (
            Patch(
                f"{_DELIVERIES}/leases.sql",
                "    AND tries < :tries AND give_up_at > due_at\n",
                "    AND tries < :tries AND give_up_at < 0\n",
            ),
        ),
        (_crash_points("stuck"),),
    ),
    Mutant(
        "a call made after its time",
        (
            Patch(
                "src/oncebox/worker/once.py",
                "left = min(call.timeout, (wish.surely_over_at - self._desk.clock()) / 1000)",
                "left = call.timeout",
            ),
        ),
        (Torture("ledger-sleepers", "sqlite", ("doubled",)),),
    ),
    Mutant(
        "once treated as idempotent",
        (
            Patch(
                "src/oncebox/worker/once.py",
                "if started and call.safe is Safe.IDEMPOTENT and in_window:",
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
                "            accepted = await group.submit(new)\n",
                "            try:\n"
                "                accepted = await group.submit(new)\n"
                "            except CommitUnknown:\n"
                "                accepted = Accepted(new.id, Arrival.NEW, State.RECEIVED)\n",
            ),
            Patch(
                f"{_DELIVERIES}/intake.py",
                "from oncebox.errors import OnceboxError\n",
                "from oncebox.errors import CommitUnknown, OnceboxError\n"
                "from oncebox.model.delivery import State\n",
            ),
        ),
        (Torture("ledger-lost-commit-requests", "postgres", ("lost",)),),
    ),
    Mutant(
        "every settlement counted, however late",
        (
            Patch(
                f"{_DELIVERIES}/settlements.py",
                "_end_otherwise(tx, other, now) == len(settlements)",
                "_end_otherwise(tx, other, now) >= 0",
            ),
        ),
        (_tests(_SETTLEMENTS, "test_a_stale_worker_may_only_add_proof"),),
    ),
    Mutant(
        "a stale failure undoes what another began",
        (
            Patch(
                f"{_DELIVERIES}/effects.sql",
                "OR (state = 'started' AND fence <= :fence)",
                "OR state = 'started'",
            ),
        ),
        (
            _tests(
                f"{_CONTRACT}/test_effects.py",
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
                f"{_CONTRACT}/test_effects.py",
                "test_a_transaction_that_lost_its_lease_meanwhile_is_undone",
            ),
        ),
    ),
    Mutant(
        "a stop that leaves a begun effect in doubt",
        (
            Patch(
                "src/oncebox/worker/once.py",
                "            if (await beginning).go:\n",
                "            if False and (await beginning).go:\n",
            ),
        ),
        (
            _tests(
                f"{_CONTRACT}/test_once.py",
                "test_an_effect_whose_journal_was_still_being_written_was_not_begun",
            ),
        ),
    ),
    Mutant(
        "a shortcut whose rows are not known again",
        (
            Patch(
                f"{_DELIVERIES}/arrivals.py",
                "        new = [each for each in new if each.id in ids]\n",
                "        new = []\n",
            ),
        ),
        (
            _tests(
                f"{_CONTRACT}/test_group.py",
                "test_what_a_shortcut_wrote_is_new_on_the_long_way_too",
            ),
        ),
    ),
    Mutant(
        "two tries of one delivery taken for one",
        (
            Patch(
                "src/oncebox/worker/running.py",
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
                "src/oncebox/store/postgres_session.py",
                "        except psycopg.Error as error:\n            self.close()\n",
                "        except ZeroDivisionError as error:\n            self.close()\n",
            ),
        ),
        (Torture("ledger-cut-connections", "postgres", ("crashed", "refused")),),
    ),
)
