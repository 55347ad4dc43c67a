"""Faults in the management of mailboxes: secrets that go astray, servers named from afar."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_API = "src/oncebox/server/api/mailboxes.py"
_SERVICE = "src/oncebox/ledger/mailboxes/mailbox_service.py"
_SQL = "src/oncebox/ledger/mailboxes/mailboxes.sql"
_LEDGER = "src/oncebox/ledger/mailboxes/mailboxes.py"
_FIELDS = "src/oncebox/model/mailboxes/mailbox_fields.py"
_BY_API = "tests/server/api/test_mailboxes.py"
_DECLARED = "tests/contract/mailboxes/test_declared_mailboxes.py"
_GAUGES = "tests/contract/mailboxes/test_mailbox_gauges.py"


def _one(name: str, file: str, old: str, new: str, test: str) -> Mutant:
    return Mutant(f"mailboxes: {name}", (Patch(file, old, new),), (Selection((test,)),))


MAILBOX_MANAGEMENT = (
    _one(
        "a file of the host read from afar",
        _API,
        "    sources.refuse_references(getattr(fields, each) for each in SECRET_FIELDS)\n",
        "    sources.refuse_references(getattr(fields, each) for each in SECRET_FIELDS[:0])\n",
        f"{_BY_API}::test_nobody_has_the_hosts_files_and_variables_read_from_afar",
    ),
    _one(
        "a server named by another tenant",
        _API,
        "    after=_notify,\n    home=True,\n",
        "    after=_notify,\n    home=False,\n",
        f"{_BY_API}::test_other_tenants_manage_their_mailboxes_and_name_no_servers",
    ),
    _one(
        "a server changed by another tenant",
        _API,
        "    if call.tenant != call.components.settings.tenant:",
        "    if not call.tenant:",
        f"{_BY_API}::test_other_tenants_manage_their_mailboxes_and_name_no_servers",
    ),
    _one(
        "a configuration stored in the clear",
        _SERVICE,
        "return draft.to_mailbox(self._cipher.encrypt(entry.tenant, draft.name, draft.config))",
        "return draft.to_mailbox(draft.config)",
        f"{_BY_API}::test_secrets_are_stored_encrypted_and_never_returned",
    ),
    _one(
        "secrets in a representation",
        _FIELDS,
        'return f"{type(self).__name__}(kind={self.kind!r})"',
        'return f"{type(self).__name__}({self.password})"',
        f"{_BY_API}::test_secrets_are_stored_encrypted_and_never_returned",
    ),
    _one(
        "the inbox of another tenant",
        _SQL,
        "WHERE id = :inbox_id AND tenant = :tenant;",
        "WHERE id = :inbox_id AND :tenant = :tenant;",
        f"{_BY_API}::test_the_inbox_of_another_tenant_is_not_found",
    ),
    _one(
        "read although it is not in the settings",
        _SQL,
        "due_at <= :now AND kind <> 'program' AND origin = 'database'",
        "due_at <= :now AND kind <> 'program' AND origin <> ''",
        f"{_DECLARED}::test_a_mailbox_that_is_taken_out_of_the_settings_is_read_no_more",
    ),
    _one(
        "a command that changes what the settings have",
        _SERVICE,
        "        if (tenant, name) in self.written:",
        "        if (name, tenant) in self.written:",
        f"{_DECLARED}::test_what_is_in_the_settings_is_changed_only_there_but_paused_and_resumed",
    ),
    _one(
        "a lease lost by every start",
        _SERVICE,
        "return all(same) and self.decrypt(known) == config",
        "return all(same) and self.decrypt(known) != config",
        f"{_DECLARED}::test_a_mailbox_of_the_settings_is_stored_once_and_read",
    ),
    _one(
        "a new password that is ignored",
        _SERVICE,
        "return all(same) and self.decrypt(known) == config",
        "return all(same) and bool(config)",
        f"{_DECLARED}::test_a_change_of_the_settings_keeps_the_cursor_and_takes_the_lease",
    ),
    _one(
        "mail for no inbox counted as a duplicate",
        _LEDGER,
        "for each in unknown.values() if each.deliveries]",
        "for each in unknown.values()]",
        "tests/contract/mailboxes/test_mailboxes.py::test_a_mail_for_no_inbox_is_no_duplicate",
    ),
    _one(
        "the series of a removed mailbox",
        "src/oncebox/workers/maintenance/mailbox_gauges.py",
        "for labels in self._shown - names:",
        "for labels in names - self._shown:",
        f"{_GAUGES}::test_the_gauges_show_each_mailbox_until_it_is_removed",
    ),
)
