"""Every error Oncebox raises, as one tree: database, ledger, effect, handler, egress, signature.

Every error carries a stable ``code``, says whether trying again is safe
(``retry_safe``), and has a message that names the remedy.

    OnceboxError
    ├── ConfigInvalid                 a setting cannot be used
    │   └── ExtraMissing              a part of Oncebox is not installed
    ├── StoreError                    the database
    │   ├── StoreUnavailable          not now: answer 503 / 451
    │   │   ├── DatabaseUnreachable
    │   │   ├── DatabaseBusy
    │   │   ├── DatabaseOverdue       no answer in time; nothing was stored
    │   │   ├── DiskFull
    │   │   ├── StoreFailed           an unexpected failure
    │   │   └── CommitUnknown         the reply to COMMIT was lost
    │   │       └── CommitOverdue     the reply to COMMIT did not come in time
    │   ├── DatabaseClosed            this program has closed it
    │   ├── RowRefused                the database refused this row's data
    │   ├── DatabaseLoginRefused
    │   ├── DatabaseReadOnly
    │   ├── DatabaseCorrupt
    │   ├── DatabaseUnsafe            it could lose acknowledged data
    │   ├── PoolerUnsupported         connections change between transactions
    │   ├── SchemaTooNew
    │   ├── SchemaOutdated
    │   ├── MigrationChanged
    │   ├── BackupDamaged
    │   └── MasterKeyError
    │       ├── MasterKeyMissing
    │       ├── MasterKeyWrong
    │       │   └── DataKeyUnknown    may be retried
    │       └── MasterKeyRotating     to another key
    ├── InputRefused                  invalid input
    │   ├── KeyInvalid
    │   ├── HeaderInvalid
    │   └── BodyTooLarge
    ├── NotFound
    │   ├── CursorMismatch            a cursor of another list
    │   └── SourceUnknown             nothing can be sent to it
    ├── CursorTooOld                  its events were deleted
    ├── StateConflict                 not possible in its present state
    ├── LeaseLost                     another worker owns the work now
    ├── RequestKeyReused              it was used for another claim
    ├── HandlerRegisteredTwice
    ├── ListenAddressUnavailable      nothing can listen there
    ├── RequestRefused                a rejected HTTP request: see errors/http.py
    ├── EffectError
    │   ├── EffectNameReused
    │   ├── EffectMisused
    │   └── EffectOutcomeUnknown      an operator decides
    ├── HandlerFailure                raised by handlers, on purpose
    │   ├── Transient
    │   ├── Permanent
    │   └── NotDone
    ├── EgressError                   an outgoing request failed
    │   ├── EgressRefused             not retried
    │   └── EgressFailed              may be retried
    ├── SignatureError                webhook signatures
    │   ├── SignatureInvalid          the request is not what its sender signed
    │   ├── KeyFetchRequired          a key must be fetched first: answer 503
    │   ├── UnknownScheme
    │   └── SchemeInvalid             a custom scheme cannot be used
    ├── SecretUnavailable             a reference to a secret cannot be resolved
    ├── …                             mail, codes and links: see errors/mail.py
    ├── …                             outgoing mail: see errors/sends.py
    └── CallFailed                    raised by clients only: see client/errors.py
"""


class OnceboxError(Exception):
    """Anything Oncebox refuses or cannot do."""

    code: str = "error"
    retry_safe: bool = False
    #: HTTP status, request and wait in seconds, where a service answered a client with it
    status: int | None = None
    request_id: str | None = None
    retry_after: float | None = None


class ConfigInvalid(OnceboxError):
    """A setting cannot be used."""

    code = "config_invalid"


class ExtraMissing(ConfigInvalid):
    """This part of Oncebox is not installed."""

    code = "extra_missing"


class StoreError(OnceboxError):
    """The database refused or failed."""

    code = "store_error"
    #: PostgreSQL's code of the error, for the log
    sqlstate: str | None = None


class StoreUnavailable(StoreError):
    """The database cannot commit right now; nothing was acknowledged."""

    code = "store_unavailable"
    retry_safe = True


class DatabaseUnreachable(StoreUnavailable):
    """No connection to the database server."""

    code = "database_unreachable"


class DatabaseBusy(StoreUnavailable):
    """Another process held the database for too long."""

    code = "database_busy"


class DatabaseOverdue(StoreUnavailable):
    """The database did not answer in time; nothing was stored."""

    code = "database_overdue"


class DiskFull(StoreUnavailable):
    """The disk of the database is full."""

    code = "disk_full"


class StoreFailed(StoreUnavailable):
    """The database failed unexpectedly; nothing was acknowledged."""

    code = "store_failed"


class CommitUnknown(StoreUnavailable):
    """The connection broke during COMMIT: it may or may not have happened."""

    code = "commit_unknown"


class CommitOverdue(CommitUnknown):
    """The reply to COMMIT did not come in time: it may or may not happen."""

    code = "commit_overdue"


class DatabaseClosed(StoreError):
    """This program has closed the database."""

    code = "database_closed"


class RowRefused(StoreError):
    """The database refused the data of one row."""

    code = "row_refused"


class DatabaseLoginRefused(StoreError):
    """The server does not accept the user, password or database name."""

    code = "database_login_refused"


class DatabaseReadOnly(StoreError):
    """The database or its folder cannot be written."""

    code = "database_read_only"


class DatabaseCorrupt(StoreError):
    """The file is not a healthy database."""

    code = "database_corrupt"


class DatabaseUnsafe(StoreError):
    """The database could lose acknowledged data."""

    code = "database_unsafe"


class PoolerUnsupported(StoreError):
    """A pooler changes the server connection between transactions."""

    code = "pooler_unsupported"


class SchemaTooNew(StoreError):
    """A newer Oncebox has migrated this database."""

    code = "schema_too_new"


class SchemaOutdated(StoreError):
    """The database needs a migration first."""

    code = "schema_outdated"


class MigrationChanged(StoreError):
    """A migration that was applied differs from the one shipped."""

    code = "migration_changed"


class BackupDamaged(StoreError):
    """The file is not a backup, or is damaged."""

    code = "backup_damaged"


class MasterKeyError(StoreError):
    """The master key is missing or wrong."""

    code = "master_key"


class MasterKeyMissing(MasterKeyError):
    """No master key is configured where one is required."""

    code = "master_key_missing"


class MasterKeyWrong(MasterKeyError):
    """The database was encrypted with another master key."""

    code = "master_key_wrong"


class DataKeyUnknown(MasterKeyWrong):
    """The value was encrypted with a data key that this process has not read yet."""

    code = "data_key_unknown"
    retry_safe = True


class MasterKeyRotating(MasterKeyError):
    """The master key is being rotated to another key."""

    code = "master_key_rotating"


class InputRefused(OnceboxError):
    """The input is invalid; nothing was stored."""

    code = "input_refused"


class KeyInvalid(InputRefused):
    """A key, source, type or order key is empty, too long or not plain text."""

    code = "key_invalid"


class HeaderInvalid(InputRefused):
    """A header name or value has control characters, or there are too many."""

    code = "header_invalid"


class BodyTooLarge(InputRefused):
    """The body is over the limit."""

    code = "body_too_large"


class NotFound(OnceboxError):
    """There is no such object."""

    code = "not_found"


class SourceUnknown(NotFound):
    """There is no source of that name or address."""

    code = "source_unknown"


class StateConflict(OnceboxError):
    """The state of the object does not allow this."""

    code = "state_conflict"


class LeaseLost(OnceboxError):
    """The lease expired, and another worker owns the work now."""

    code = "lease_lost"


class HandlerRegisteredTwice(OnceboxError):
    """Two handlers were registered for the same source and type."""

    code = "handler_registered_twice"


class EffectError(OnceboxError):
    """An effect was declared or used wrongly, or its outcome is unknown."""

    code = "effect_error"


class EffectNameReused(EffectError):
    """One run of a handler used the same effect name twice."""

    code = "effect_name_reused"


class EffectMisused(EffectError):
    """An effect was declared in a way that cannot be guaranteed."""

    code = "effect_misused"


class EffectOutcomeUnknown(EffectError):
    """The effect was started, and its outcome is unknown."""

    code = "effect_outcome_unknown"


class HandlerFailure(OnceboxError):
    """Raised by a handler to classify its failure."""

    code = "handler_failure"


class Transient(HandlerFailure):
    """Try again later; ``retry_after`` is in seconds."""

    code = "transient"
    retry_safe = True

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        """Take the reason, and optionally the seconds to wait at least."""
        super().__init__(message)
        self.retry_after = retry_after


class Permanent(HandlerFailure):
    """Trying again will not help."""

    code = "permanent"


class NotDone(HandlerFailure):
    """Proof that an effect did not happen, so it may run again."""

    code = "not_done"
    retry_safe = True


class EgressError(OnceboxError):
    """An outgoing request failed."""

    code = "egress_error"


class EgressRefused(EgressError):
    """An address or response that Oncebox never fetches."""

    code = "egress_refused"


class EgressFailed(EgressError):
    """An external service did not answer properly; the request may be retried."""

    code = "egress_failed"
    retry_safe = True


class SignatureError(OnceboxError):
    """A webhook's signature or its scheme is invalid."""

    code = "signature_error"


class SignatureInvalid(SignatureError):
    """The signature of a request is invalid; ``reason`` says why in one word."""

    code = "signature_invalid"

    def __init__(self, reason: str) -> None:
        """Take the reason; the message never shows what a right signature would have been."""
        super().__init__(f"the signature does not hold: {reason}")
        self.reason = reason


class KeyFetchRequired(SignatureError):
    """A public key must be fetched to verify the request; ``name`` says which."""

    code = "key_fetch_required"
    retry_safe = True

    def __init__(self, name: str) -> None:
        """Take the address or the id of the key."""
        super().__init__("a public key of the sender must be fetched first; try again shortly")
        self.name = name


class UnknownScheme(SignatureError):
    """There is no signature scheme of that name."""

    code = "unknown_scheme"


class SchemeInvalid(SignatureError):
    """A custom signature scheme cannot be used."""

    code = "scheme_invalid"


class SecretUnavailable(OnceboxError):
    """A source's secret cannot be fetched from where its reference points."""

    code = "secret_unavailable"


class ListenAddressUnavailable(OnceboxError):
    """The address or port cannot be listened on."""

    code = "listen_address_unavailable"


class RequestKeyReused(OnceboxError):
    """A claim's request key was used before, by another worker or for other sources."""

    code = "request_key_reused"


class CursorMismatch(NotFound):
    """The cursor belongs to another list."""

    code = "cursor_mismatch"


class CursorTooOld(OnceboxError):
    """Events after this cursor were deleted; begin without one."""

    code = "cursor_too_old"
