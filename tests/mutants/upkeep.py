"""Faults of upkeep: backups, restores, what is shown of settings, completion, the doctor."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_CONVERTING = "tests/contract/db/test_converting_rows.py"
_MIGRATIONS = "src/oncebox/db/migrations"


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{file}::{name}" for name in names)),)


UPKEEP = (
    Mutant(
        "a floor that no complete scan passes",
        (
            Patch(
                "src/oncebox/workers/scan_floor.py",
                "            self._complete_at = ended +",
                "            self._complete_at = 9e9 + ended +",
            ),
        ),
        _tests(
            "tests/contract/deliveries/test_claim_floor.py",
            "test_what_is_due_below_the_floor_is_claimed_by_the_next_complete_scan",
        ),
    ),
    Mutant(
        "a floor above what a claim left",
        (
            Patch(
                "src/oncebox/ledger/deliveries/leases.py",
                "    is_all = len(wanted) == len(due) < most\n",
                "    is_all = len(wanted) == len(due)\n",
            ),
            Patch(
                "src/oncebox/ledger/deliveries/leases.py",
                "    is_all = len(rows) == count < most\n",
                "    is_all = len(rows) == count\n",
            ),
        ),
        _tests(
            "tests/contract/deliveries/test_claim_floor.py",
            "test_what_a_claim_left_is_above_the_floor",
        ),
    ),
    Mutant(
        "a floor that a clock set back is below",
        (
            Patch(
                "src/oncebox/workers/scan_floor.py",
                "        return min(self._floor, max(0, now - self._slack))\n",
                "        return self._floor\n",
            ),
        ),
        _tests("tests/workers/test_scan_floor.py", "test_a_clock_that_was_set_back_hides_nothing"),
    ),
    Mutant(
        "plans that sort whole tables",
        (Patch("src/oncebox/db/postgres.py", '    "enable_sort",\n', ""),),
        _tests(
            "tests/contract/plans/test_query_plans.py",
            "test_no_query_reads_much_more_than_it_returns_on_postgresql",
        ),
    ),
    Mutant(
        "a claim that reads the whole queue",
        (
            Patch(
                "src/oncebox/ledger/deliveries/leases.sql",
                " AND heavy = :heavy\n        AND state IN ('received', 'failed')\n"
                "        AND due_at IS NOT NULL AND due_at >= :floor",
                " AND heavy = :heavy\n        AND state || '' IN ('received', 'failed')\n"
                "        AND due_at IS NOT NULL AND due_at >= :floor",
            ),
        ),
        _tests(
            "tests/contract/plans/test_query_plans.py",
            "test_no_query_reads_much_more_than_it_returns_on_postgresql",
        ),
    ),
    Mutant(
        "a backup of the file without its log",
        (
            Patch(
                "src/oncebox/db/sqlite_backup.py",
                "    refuse_old_library(apsw.sqlite_lib_version())\n"
                "    with (\n        _translate_errors(source),\n"
                "        closing(_open_shared(source)) as live,\n"
                "        closing(_open_private(target))",
                "    target.write_bytes(source.read_bytes())\n    return\n    with (\n"
                "        _translate_errors(source),\n"
                "        closing(_open_shared(source)) as live,\n"
                "        closing(_open_private(target))",
            ),
        ),
        _tests(
            "tests/cli/test_backup.py",
            "test_a_backup_under_load_holds_all_that_was_acknowledged_before_it_began",
        ),
    ),
    Mutant(
        "a backup that is written where it shall be",
        (
            Patch(
                "src/oncebox/cli/commands/database.py",
                '        packed = folder / "packed"',
                "        packed = target",
            ),
        ),
        _tests(
            "tests/cli/test_backup.py",
            "test_a_killed_backup_leaves_no_half_file_and_harms_no_whole_one",
        ),
    ),
    Mutant(
        "a restore that moves the old away first",
        (
            Patch(
                "src/oncebox/db/sqlite_backup.py",
                "            kept.hardlink_to(path)\n",
                "            path.replace(kept)\n",
            ),
        ),
        _tests("tests/cli/test_backup.py", "test_a_killed_restore_leaves_the_old_or_the_new"),
    ),
    Mutant(
        "a restore that leaves the old log in place",
        (
            Patch(
                "src/oncebox/db/sqlite_backup.py",
                "    with _translate_errors(path), _exclusively(path):\n",
                "    if True:\n",
            ),
            Patch(
                "src/oncebox/db/sqlite_backup.py", "            _keep_sidecars(path, kept)\n", ""
            ),
        ),
        _tests("tests/cli/test_backup.py", "test_a_killed_restore_leaves_the_old_or_the_new"),
    ),
    Mutant(
        "a restore under a running service",
        (
            Patch(
                "src/oncebox/db/sqlite_backup.py",
                "    with _translate_errors(path), _exclusively(path):\n",
                "    if True:\n",
            ),
        ),
        _tests(
            "tests/cli/test_backup.py",
            "test_a_backup_under_load_holds_all_that_was_acknowledged_before_it_began",
        ),
    ),
    Mutant(
        "a restore after which mail leaves by itself",
        (
            Patch(
                "src/oncebox/ledger/maintenance.py",
                "        if not each.paused\n",
                "        if each.paused\n",
            ),
        ),
        _tests(
            "tests/cli/test_backup.py", "test_after_a_restore_nothing_leaves_until_a_person_says_so"
        ),
    ),
    Mutant(
        "a restore after which fences are given again",
        (Patch("src/oncebox/ledger/maintenance.py", "_FENCE_JUMP = 1_000_000", "_FENCE_JUMP = 0"),),
        _tests(
            "tests/contract/admin/test_restore.py",
            "test_a_lease_that_was_given_after_the_backup_is_void",
        ),
    ),
    Mutant(
        "a restore that does not ask for the key",
        (
            Patch(
                "src/oncebox/cli/commands/database.py",
                "        if found == wanted:\n            return None",
                "        return None",
            ),
        ),
        _tests(
            "tests/cli/test_backup.py",
            "test_another_machine_needs_the_key_from_the_backup_or_from_elsewhere",
        ),
    ),
    Mutant(
        "a backup whose checksums nobody compares",
        (
            Patch(
                "src/oncebox/db/sqlite_backup.py",
                "                raise ValueError(name)\n",
                "                pass\n",
            ),
        ),
        _tests("tests/cli/test_backup.py", "test_a_damaged_backup_is_refused_and_changes_nothing"),
    ),
    Mutant(
        "a file that is opened although it was replaced",
        (Patch("src/oncebox/db/sqlite.py", "    if moved:", "    if moved and False:"),),
        _tests(
            "tests/cli/test_backup.py",
            "test_who_opens_the_file_during_a_restore_never_gets_what_was_replaced",
        ),
    ),
    Mutant(
        "a password in an address that is shown",
        (
            Patch(
                "src/oncebox/cli/output/redaction.py",
                '    user = f"{HIDDEN}@" if at or before else ""',
                '    user = f"{before}@" if at or before else ""',
            ),
        ),
        _tests("tests/cli/test_config.py", "test_config_show_never_shows_a_secret"),
    ),
    Mutant(
        "a master key that is shown",
        (Patch("src/oncebox/cli/output/redaction.py", "(?:key|secret|", "(?:secret|"),),
        _tests("tests/cli/test_config.py", "test_config_show_never_shows_a_secret"),
    ),
    Mutant(
        "a completion that loads every command",
        (
            Patch(
                "src/oncebox/cli/main.py",
                "        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]",
                "        return super().shell_complete(ctx, incomplete)",
            ),
        ),
        _tests(
            "tests/cli/test_completion.py",
            "test_completion_imports_no_command_it_does_not_complete",
        ),
    ),
    Mutant(
        "a port of somebody else taken for ours",
        (
            Patch(
                "src/oncebox/cli/checks/machine.py",
                "        if sign in await _first_bytes(_LOOPBACK_OF_ANY.get(host, host), "
                "port, ask):",
                "        if await _first_bytes(_LOOPBACK_OF_ANY.get(host, host), port, "
                "ask) is not None:",
            ),
        ),
        _tests("tests/cli/test_doctor_machine.py", "test_a_port_is_free_or_ours_or_somebody_elses"),
    ),
    Mutant(
        "a conversion that deletes rows it has not moved",
        (
            Patch(
                f"{_MIGRATIONS}/sqlite/0010_digests.sql",
                " WHERE id <= (SELECT MAX(id) FROM oncebox_deliveries_new);",
                ";",
            ),
        ),
        _tests(_CONVERTING, "test_every_row_is_as_before_and_has_the_digests_of_a_new_one"),
    ),
    Mutant(
        "a conversion that takes itself for finished after a batch",
        (
            Patch(
                "src/oncebox/db/migrate.py",
                "each.checksum if finished else _BEGUN + each.checksum",
                "each.checksum",
            ),
        ),
        _tests(_CONVERTING, "test_a_migration_that_was_killed_goes_on"),
    ),
    Mutant(
        "a conversion that older processes store behind",
        (
            Patch(
                f"{_MIGRATIONS}/postgres/0010_digests.sql",
                "WHERE key_digest IS NULL;\nALTER TABLE oncebox_deliveries "
                "ALTER COLUMN key_digest SET NOT NULL, DROP COLUMN backed;",
                "WHERE false;\nALTER TABLE oncebox_deliveries DROP COLUMN backed;",
            ),
        ),
        _tests(
            _CONVERTING,
            "test_a_process_of_the_version_before_loses_nothing_while_rows_are_converted",
        ),
    ),
    Mutant(
        "an older process whose rows are refused for good",
        (
            Patch(
                f"{_MIGRATIONS}/postgres/0010_digests.sql",
                "SET NOT NULL, DROP COLUMN backed;",
                "SET NOT NULL;\nDROP INDEX oncebox_deliveries_body;",
            ),
        ),
        _tests(_CONVERTING, "test_a_process_of_the_version_before_cannot_store_without_digests"),
    ),
    Mutant(
        "digests that forget the tenant",
        (
            Patch(
                "src/oncebox/model/validation.py",
                'digest(f"{tenant}\\n{source}\\n{key}"',
                'digest(f"{source}\\n{key}"',
            ),
        ),
        _tests(_CONVERTING, "test_every_row_is_as_before_and_has_the_digests_of_a_new_one"),
    ),
    Mutant(
        "a bulk insert of several statements that commits each",
        (
            Patch(
                "src/oncebox/db/sqlite.py",
                "            statement, values, keep = _filled_insert(query, found, "
                "(self.clock(),))\n"
                "            tx.insert(statement, values, keep=keep)\n",
                "            for row in found:\n"
                "                statement, values, keep = _filled_insert(\n"
                "                    query, [row], (self.clock(),)\n"
                "                )\n"
                "                tx.insert(statement, values, keep=keep)\n",
            ),
        ),
        _tests(
            "tests/contract/db/test_group_commit.py", "test_a_bulk_insert_stores_all_rows_or_none"
        ),
    ),
    Mutant(
        "prepared statements that keep the last bodies",
        (
            Patch(
                "src/oncebox/db/sqlite.py",
                "values, total <= _BYTES_KEPT",
                "values, True",
            ),
        ),
        _tests(
            "tests/contract/db/test_group_commit.py",
            "test_prepared_statements_do_not_keep_large_bodies",
        ),
    ),
)
