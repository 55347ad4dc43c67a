"""Faults in the sealing of mail, and in what agents are told."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_INBOXES = "src/oncebox/ledger/inboxes"
_STRINGS = "tests/integration/test_strings.py::test_a_code_is_in_no_file_at_any_time"
_SPOOLED = (
    "tests/server/smtp/test_connections.py::test_what_is_in_the_file_of_a_large_mail_cannot_be_read"
)


def _tests(*names: str) -> Selection:
    return Selection(
        tuple(f"tests/contract/inboxes/test_mail_encryption.py::{name}" for name in names)
    )


VAULT = (
    Mutant(
        "mail stored as it came",
        (
            Patch(
                "src/oncebox/ledger/inboxes/mail_intake.py",
                "encrypted = self._cipher.encrypt(data, mail_aad(tenant, shared or first))",
                "encrypted = data",
            ),
        ),
        (_tests("test_what_mail_says_is_not_in_the_database"), Selection((_STRINGS,))),
    ),
    Mutant(
        "what was read of mail stored as it is",
        (
            Patch(
                "src/oncebox/workers/mail/mail_processor.py",
                "encoded = self._mail_cipher.encrypt(message.encoded, aad)",
                "encoded = message.encoded",
            ),
        ),
        (_tests("test_what_mail_says_is_not_in_the_database"), Selection((_STRINGS,))),
    ),
    Mutant(
        "sealed values bound to their row, but to no tenant",
        (
            Patch(
                "src/oncebox/ledger/ciphers.py",
                'f"oncebox_payloads.body\\0{tenant}\\0{payload_id}"',
                'f"oncebox_payloads.body\\0{payload_id}"',
            ),
        ),
        (_tests("test_a_sealed_value_opens_in_no_other_place"),),
    ),
    Mutant(
        "documents bound to their tenant, but to no row",
        (
            Patch(
                "src/oncebox/ledger/ciphers.py",
                'f"oncebox_messages.document\\0{tenant}\\0{message_id}"',
                'f"oncebox_messages.document\\0{tenant}"',
            ),
        ),
        (_tests("test_a_message_that_cannot_be_opened_warns_and_the_others_are_read"),),
    ),
    Mutant(
        "sealed for each inbox, not once for all",
        (
            Patch(
                "src/oncebox/ledger/inboxes/mail_intake.py",
                'shared = self._new_id("pay") if more else None',
                "shared = None",
            ),
        ),
        (_tests("test_what_several_inboxes_of_a_tenant_share_is_sealed_once"),),
    ),
    Mutant(
        "large mail sealed on the loop",
        (
            Patch(
                "src/oncebox/ledger/inboxes/mail_intake.py",
                "mail = await asyncio.to_thread(self.deliveries, envelope, data)",
                "mail = self.deliveries(envelope, data)",
            ),
        ),
        (_tests("test_a_large_mail_is_sealed_and_opened_beside_the_loop"),),
    ),
    Mutant(
        "one document that cannot be opened hides them all",
        (
            Patch(
                "src/oncebox/ledger/inboxes/messages.py",
                "    except (MailDecryptionFailed, msgspec.MsgspecError):",
                "    except ZeroDivisionError:",
            ),
        ),
        (_tests("test_a_message_that_cannot_be_opened_warns_and_the_others_are_read"),),
    ),
    Mutant(
        "one original that cannot be opened stops the filing",
        (
            Patch(
                f"{_INBOXES}/messages.py",
                "    except (MailDecryptionFailed, msgspec.MsgspecError):  # damaged, "
                "or of a later version\n"
                "        return None",
                "    except ZeroDivisionError:\n        return None",
            ),
        ),
        (_tests("test_a_copy_of_a_message_that_cannot_be_opened_is_still_a_copy"),),
    ),
    Mutant(
        "mail that cannot be opened tried again and again",
        (
            Patch(
                "src/oncebox/workers/mail/mail_processor.py",
                "raise Permanent(str(error)) from error",
                "raise",
            ),
        ),
        (
            _tests(
                "test_mail_that_cannot_be_opened_is_dead_at_once_and_keeps_nobody_waiting",
            ),
        ),
    ),
    Mutant(
        "a sealed mail cut to the size of the plain one",
        (
            Patch(
                "src/oncebox/ledger/deliveries/leases.py",
                "body = whole if source == MAIL_SOURCE else whole[start : start + size]",
                "body = whole[start : start + size]",
            ),
        ),
        (
            _tests(
                "test_a_large_mail_is_sealed_and_opened_beside_the_loop",
                "test_a_mail_to_several_inboxes_is_claimed_whole_for_each",
            ),
        ),
    ),
    Mutant(
        "a webhook that looks sealed is opened",
        (
            Patch(
                "src/oncebox/ledger/deliveries/inspections.py",
                "    if source == MAIL_SOURCE:\n",
                "    if source:\n",
            ),
        ),
        (_tests("test_a_webhook_that_looks_sealed_is_left_alone"),),
    ),
    Mutant(
        "an error that quotes the mail is kept",
        (
            Patch(
                "src/oncebox/workers/mail/mail_processor.py",
                "if not isinstance(error, Permanent):",
                "if False:",
            ),
        ),
        (
            Selection(
                (
                    "tests/contract/inboxes/test_mail_processor.py::test_an_error_does_not_quote_the_mail",
                )
            ),
        ),
    ),
    Mutant(
        "large mail on disk as it comes",
        (
            Patch(
                "src/oncebox/server/smtp/mail_spool.py",
                "_write_all(self._file, self._encryptor.update(piece))",
                "_write_all(self._file, piece)",
            ),
            Patch(
                "src/oncebox/server/smtp/mail_spool.py",
                "return self._cipher.decryptor().update(self._file.read())",
                "return self._file.read()",
            ),
        ),
        (Selection((_SPOOLED,)),),
    ),
    Mutant(
        "what was let go lies on in the file",
        (Patch("src/oncebox/db/sqlite.py", "secure_delete = ON", "secure_delete = OFF"),),
        (Selection((_STRINGS,)),),
    ),
    Mutant(
        "an agent reads what stands behind the plus sign",
        (
            Patch(
                "src/oncebox/server/api/messages.py",
                "    if not _may_read(call):\n        return typed\n    shown",
                "    shown",
            ),
        ),
        (
            Selection(
                (
                    "tests/server/api/test_injection.py::test_no_answer_of_the_api_says_a_word_of_a_sender",
                )
            ),
        ),
    ),
    Mutant(
        "an event that tells the domain as it was written",
        (
            Patch(
                "src/oncebox/ledger/inboxes/messages.py",
                '"sender_domain": filing.sender_domain,',
                '"sender_domain": parsed.sender.domain,',
            ),
        ),
        (
            Selection(
                (
                    "tests/server/api/test_injection.py::test_no_answer_of_the_api_says_a_word_of_a_sender",
                )
            ),
        ),
    ),
    Mutant(
        "a domain as long as a sentence",
        (
            Patch(
                "src/oncebox/model/inboxes/message.py",
                "_LONGEST_DOMAIN = 64",
                "_LONGEST_DOMAIN = 253",
            ),
        ),
        (
            Selection(
                (
                    "tests/server/api/test_injection.py::test_a_domain_is_told_as_a_name_and_a_sentence_is_not",
                )
            ),
        ),
    ),
)
