"""Faults of upkeep: backups, restores, what is shown of settings, completion, the doctor."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_SNAPSHOT = "src/oncebox/store/snapshot.py"
_ARCHIVE = "src/oncebox/store/archive.py"
_RESTORED = "src/oncebox/ledger/restored.py"
_CLI = "src/oncebox/cli"


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"tests/{file}::{name}" for name in names)),)


UPKEEP = (
    Mutant(
        "a backup of the file without its log",
        (
            Patch(
                _SNAPSHOT,
                "    refuse_old_library(apsw.sqlite_lib_version())\n    with _told(source)",
                "    target.write_bytes(source.read_bytes())\n    return\n    with _told(source)",
            ),
        ),
        _tests(
            "cli/test_backup.py",
            "test_a_backup_under_load_holds_all_that_was_acknowledged_before_it_began",
        ),
    ),
    Mutant(
        "a backup that is written where it shall be",
        (
            Patch(
                f"{_CLI}/backup.py", '        packed = folder / "packed"', "        packed = target"
            ),
        ),
        _tests(
            "cli/test_backup.py",
            "test_a_killed_backup_leaves_no_half_file_and_harms_no_whole_one",
        ),
    ),
    Mutant(
        "a restore that moves the old away first",
        (
            Patch(
                _SNAPSHOT,
                "            kept.hardlink_to(path)\n",
                "            path.replace(kept)\n",
            ),
        ),
        _tests("cli/test_backup.py", "test_a_killed_restore_leaves_the_old_or_the_new"),
    ),
    Mutant(
        "a restore that leaves the old log in place",
        (
            Patch(
                _SNAPSHOT,
                "    with _told(path), _alone(path):\n",
                "    if True:\n",
            ),
            Patch(_SNAPSHOT, "            _put_aside(path, kept)\n", ""),
        ),
        _tests("cli/test_backup.py", "test_a_killed_restore_leaves_the_old_or_the_new"),
    ),
    Mutant(
        "a restore under a running service",
        (Patch(_SNAPSHOT, "    with _told(path), _alone(path):\n", "    if True:\n"),),
        _tests(
            "cli/test_backup.py",
            "test_a_backup_under_load_holds_all_that_was_acknowledged_before_it_began",
        ),
    ),
    Mutant(
        "a restore after which mail leaves by itself",
        (Patch(_RESTORED, "        if not each.paused\n", "        if each.paused\n"),),
        _tests("cli/test_backup.py", "test_after_a_restore_nothing_leaves_until_a_person_says_so"),
    ),
    Mutant(
        "a restore after which fences are given again",
        (Patch(_RESTORED, "_JUMP = 1_000_000", "_JUMP = 0"),),
        _tests("contract/test_restored.py", "test_a_lease_that_was_given_after_the_backup_is_void"),
    ),
    Mutant(
        "a restore that does not ask for the key",
        (
            Patch(
                f"{_CLI}/restore.py",
                "        if found == wanted:\n            return None",
                "        return None",
            ),
        ),
        _tests(
            "cli/test_backup.py",
            "test_another_machine_needs_the_key_from_the_backup_or_from_elsewhere",
        ),
    ),
    Mutant(
        "a backup whose checksums nobody compares",
        (
            Patch(
                _ARCHIVE,
                "        if (source.size, source.hash.hexdigest()) != (entry.size, entry.sha256):\n"
                "            raise self._damaged()\n",
                "",
            ),
        ),
        _tests("cli/test_backup.py", "test_a_damaged_backup_is_refused_and_changes_nothing"),
    ),
    Mutant(
        "a file that is opened although it was replaced",
        (Patch("src/oncebox/store/sqlite.py", "    if moved:", "    if moved and False:"),),
        _tests(
            "cli/test_backup.py",
            "test_who_opens_the_file_during_a_restore_never_gets_what_was_replaced",
        ),
    ),
    Mutant(
        "a password in an address that is shown",
        (
            Patch(
                f"{_CLI}/redaction.py",
                '    user = f"{HIDDEN}@" if at or before else ""',
                '    user = f"{before}@" if at or before else ""',
            ),
        ),
        _tests("cli/test_config.py", "test_config_show_never_shows_a_secret"),
    ),
    Mutant(
        "a master key that is shown",
        (Patch(f"{_CLI}/redaction.py", "(?:key|secret|", "(?:secret|"),),
        _tests("cli/test_config.py", "test_config_show_never_shows_a_secret"),
    ),
    Mutant(
        "a completion that loads every command",
        (
            Patch(
                f"{_CLI}/lazy.py",
                "        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]",
                "        return super().shell_complete(ctx, incomplete)",
            ),
        ),
        _tests(
            "cli/test_completion.py",
            "test_completion_imports_no_command_it_does_not_complete",
        ),
    ),
    Mutant(
        "a port of somebody else taken for ours",
        (
            Patch(
                f"{_CLI}/port_checks.py",
                "        if sign in await _said(_ANY.get(host, host), port, ask):",
                "        if await _said(_ANY.get(host, host), port, ask) is not None:",
            ),
        ),
        _tests("cli/test_doctor_machine.py", "test_a_port_is_free_or_ours_or_somebody_elses"),
    ),
)
