"""Faults in the master key's rotation, in who owns a domain, and in where secrets are kept."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_ROTATION = "src/oncebox/ledger/master_key_rotation"
_ROTATE_COMMAND = "src/oncebox/cli/commands/master_key.py"
_ALLOCATION = "src/oncebox/ledger/inboxes/allocation"
_DOMAINS_API = "src/oncebox/server/api/inboxes.py"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


def _rotation(*names: str) -> Selection:
    return _tests("tests/contract/admin/test_master_key_rotation.py", *names)


def _api(*names: str) -> Selection:
    return _tests("tests/server/api/test_inboxes.py", *names)


KEYS = (
    Mutant(
        "a process that stays with a retired master key",
        (
            Patch(
                f"{_ROTATION}.py",
                "            stored = await self._read_by_new_key()\n",
                "            stored = []\n",
            ),
        ),
        (_rotation("test_a_running_process_survives_two_rotations_if_the_new_key_is_configured"),),
    ),
    Mutant(
        "a newer value replaced by its rotation",
        (
            Patch(
                f"{_ROTATION}.sql",
                "UPDATE oncebox_transports SET config = :sealed\n"
                "WHERE tenant = :tenant AND name = :name AND config = :before;",
                "UPDATE oncebox_transports SET config = :sealed\n"
                "WHERE tenant = :tenant AND name = :name AND :before = :before;",
            ),
        ),
        (_rotation("test_what_somebody_writes_meanwhile_is_not_replaced"),),
    ),
    Mutant(
        "fingerprints that change with the master key",
        (
            Patch(
                "src/oncebox/core/encryption.py",
                "self._oldest = known[min(known)]",
                "self._oldest = known[max(known)]",
            ),
        ),
        (
            _rotation(
                "test_fingerprints_are_the_same_for_ever",
                "test_duplicates_are_recognised_during_and_after_a_rotation",
            ),
        ),
    ),
    Mutant(
        "an old master key retired while values need it",
        (
            Patch(
                f"{_ROTATION}.sql",
                "WHERE number = 1 AND new_key_id = :new_key_id AND place = '';",
                "WHERE number = 1 AND new_key_id = :new_key_id;",
            ),
        ),
        (
            _rotation(
                "test_until_the_end_both_keys_open_the_database_and_then_only_the_new_one",
            ),
        ),
    ),
    Mutant(
        "a data key used before others know it",
        (
            Patch(
                "src/oncebox/db/data_keys.py",
                "if each.active_from <= now]",
                "if now]",
            ),
        ),
        (
            _rotation(
                "test_a_running_process_learns_of_a_data_key_before_anybody_encrypts_with_it",
            ),
        ),
    ),
    Mutant(
        "values encrypted again while others use the old data key",
        (
            Patch(
                f"{_ROTATION}.py",
                "    if wait > 0:\n        await sleep(wait / 1000)\n",
                "    del wait, sleep\n",
            ),
        ),
        (
            _rotation(
                "test_values_are_encrypted_again_only_when_no_process_uses_an_older_data_key",
            ),
        ),
    ),
    Mutant(
        "a kind of value that no rotation reaches",
        (
            Patch(
                f"{_ROTATION}.py",
                "following = _NAMES[_NAMES.index(place.name) + 1 :]",
                "following = _NAMES[_NAMES.index(place.name) + 2 :]",
            ),
        ),
        (_rotation("test_every_encrypted_value_is_encrypted_again_and_stays_readable"),),
    ),
    Mutant(
        "a key file replaced by a key that opens nothing",
        (
            Patch(
                _ROTATE_COMMAND,
                "        if found.id != self._target.id:\n",
                "        if _draft(self._path).exists():\n",
            ),
            Patch(
                _ROTATE_COMMAND,
                "        if not draft.exists() or encryption.master_key_from_file(draft).id "
                "!= self._target.id:\n",
                "        if not draft.exists():\n",
            ),
        ),
        (
            _tests(
                "tests/cli/test_rotate_master.py",
                "test_a_finished_rotation_leaves_the_key_that_opens_the_database",
            ),
        ),
    ),
    Mutant(
        "another key made for a rotation that has begun",
        (
            Patch(
                _ROTATE_COMMAND,
                "        raise _other_key(begun.new_key_id)\n",
                "        return self._new_key()\n",
            ),
        ),
        (
            _tests(
                "tests/cli/test_rotate_master.py",
                "test_a_rotation_that_has_begun_goes_on_with_its_own_key_only_and_makes_no_other",
            ),
        ),
    ),
    Mutant(
        "domains without proof",
        (
            Patch(
                _DOMAINS_API,
                "        await call.components.domain_proofs.check(call.tenant, call.body.name)\n",
                "        call.components.domain_proofs.record(call.tenant, call.body.name)\n",
            ),
        ),
        (
            _api(
                "test_another_tenant_proves_a_domain_by_dns_and_the_operator_needs_no_proof",
                "test_who_has_a_domain_is_told_to_nobody_who_owns_it_or_not",
            ),
        ),
    ),
    Mutant(
        "a proof that another tenant may use",
        (
            Patch(
                "src/oncebox/ledger/inboxes/domain_proofs.py",
                "msgspec.json.encode([tenant, key])",
                "msgspec.json.encode([key])",
            ),
        ),
        (_api("test_a_proof_is_of_one_tenant_and_one_domain"),),
    ),
    Mutant(
        "who has a domain told to others",
        (
            Patch(
                _DOMAINS_API,
                "        raise call.components.domain_proofs.unproven(call.tenant, asked.name) "
                "from error\n",
                "        raise\n",
            ),
        ),
        (_api("test_who_has_a_domain_is_told_to_nobody_who_owns_it_or_not"),),
    ),
    Mutant(
        "a subdomain of another tenant's domain",
        (
            Patch(
                f"{_ALLOCATION}.sql",
                "    WHERE other.tenant <> :tenant AND (",
                "    WHERE other.tenant = '' AND (",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_domains.py",
                "test_a_domain_above_or_below_another_tenants_is_refused",
            ),
        ),
    ),
    Mutant(
        "a domain and its subdomain added at once",
        (Patch(f"{_ALLOCATION}.py", "    tx.run(_sql.lock)\n", ""),),
        (
            _tests(
                "tests/contract/inboxes/test_domains.py",
                "test_two_who_add_a_domain_and_its_subdomain_at_once_are_one_and_a_refusal",
            ),
        ),
    ),
    Mutant(
        "public ids of others found by asking",
        (
            Patch(
                "src/oncebox/server/api/sources.py",
                "asked.public_id is not None and call.tenant != call.components.settings.tenant",
                "asked.public_id is not None and not call.tenant",
            ),
        ),
        (_api("test_the_public_id_of_another_tenants_source_cannot_be_asked_for"),),
    ),
    Mutant(
        "the first key printed into a log",
        (
            Patch(
                "src/oncebox/cli/process/server_process.py",
                "started.key if serving.call.out.on_terminal else None",
                "started.key",
            ),
        ),
        (
            _tests(
                "tests/cli/test_serve.py",
                "test_the_first_key_is_shown_once_and_on_a_terminal_only",
            ),
        ),
    ),
    Mutant(
        "the secret of a source stored with its deliveries",
        (
            Patch(
                "src/oncebox/server/webhooks/request_verification.py",
                '"headers": _without_secrets(compiled, request),',
                '"headers": request.headers,',
            ),
        ),
        (
            _tests(
                "tests/server/webhooks/test_request_verification.py",
                "test_a_header_that_holds_the_secret_is_not_stored_with_the_delivery",
            ),
        ),
    ),
    Mutant(
        "the secret of a source stored with an event that is passed on",
        (
            Patch(
                "src/oncebox/server/api/deliveries.py",
                "headers=_without_secrets(source, asked.headers),",
                "headers=asked.headers,",
            ),
        ),
        (
            _tests(
                "tests/server/api/test_accept.py",
                "test_the_secret_of_a_source_is_not_stored_with_an_event_that_is_passed_on",
            ),
        ),
    ),
    Mutant(
        "a scheme whose header is taken for a signature",
        (
            Patch(
                "src/oncebox/webhooks/providers.py",
                "        sends_secret=True,\n        verifier=basic_token_none.verify_token,\n"
                '        note="a token proves nothing about the body; prefer',
                "        verifier=basic_token_none.verify_token,\n"
                '        note="a token proves nothing about the body; prefer',
            ),
        ),
        (
            _tests(
                "tests/server/webhooks/test_request_verification.py",
                "test_a_header_that_holds_the_secret_is_not_stored_with_the_delivery",
                "test_every_scheme_whose_header_holds_the_secret_says_so",
            ),
        ),
    ),
    Mutant(
        "files that others may read",
        (
            Patch(
                "src/oncebox/core/files.py",
                "os.O_TRUNC | os.O_NOFOLLOW, 0o600)",
                "os.O_TRUNC | os.O_NOFOLLOW, 0o644)",
            ),
        ),
        (
            _tests("tests/core/test_files.py", "test_a_new_database_can_be_read_by_its_owner_only"),
            _tests(
                "tests/core/test_encryption.py", "test_a_key_file_is_made_once_for_its_owner_only"
            ),
        ),
    ),
    Mutant(
        "a data folder that others may enter",
        (
            Patch(
                "src/oncebox/core/files.py",
                "folder.mkdir(mode=0o700, parents=True, exist_ok=True)",
                "folder.mkdir(mode=0o755, parents=True, exist_ok=True)",
            ),
        ),
        (_tests("tests/core/test_files.py", "test_a_new_database_can_be_read_by_its_owner_only"),),
    ),
)
