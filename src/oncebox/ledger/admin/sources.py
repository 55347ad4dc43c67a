"""Sources and their secrets as stored: rows, encryption, env: and file: references.

Changes are serialised in the whole installation: each takes a lock first, so what it reads
afterwards stays true until its commit.
"""

import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from oncebox.core.encryption import MasterKey
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import ConfigInvalid, NotFound, SecretUnavailable, StateConflict
from oncebox.model.webhooks.source import SourceSecret

_sql = load(__package__, "sources.sql")

#: the purpose of the key that encrypts secrets
SOURCE_SECRET = "source secret"  # noqa: S105 - a name


class StoredSecret(msgspec.Struct, frozen=True):
    """A secret as stored: encrypted, or as a reference; never its value."""

    id: str
    ciphertext: bytes | None
    reference: str | None
    created_at: int
    retired_at: int | None = None

    def __repr__(self) -> str:
        return f"StoredSecret(id={self.id!r}, reference={self.reference!r})"

    def is_active(self, now: int) -> bool:
        """Say whether requests may still be signed with it."""
        return self.retired_at is None or self.retired_at > now


class StoredSource(msgspec.Struct, frozen=True):
    """A source as stored; ``table`` is what a person wrote."""

    tenant: str
    name: str
    public_id: str
    table: dict[str, Any]
    paused: bool
    created_at: int
    changed_at: int
    #: newest first, which is the order in which they are tried
    secrets: tuple[StoredSecret, ...]


def revision(tx: Transaction) -> str:
    """Return a value that differs after every change of any source."""
    row = tx.one(_sql.revision)
    return str(row[0]) if row else ""


def read_all(tx: Transaction) -> tuple[str, list[StoredSource]]:
    """Return all sources of the installation, at least as new as the revision beside them."""
    before = revision(tx)
    return before, list(_grouped(tx.all(_sql.everything)))


def by_name(tx: Transaction, tenant: str, name: str) -> StoredSource:
    """Return one source."""
    found = list(_grouped(tx.all(_sql.by_name, tenant=tenant, name=name)))
    if not found:
        raise NotFound("there is no such source; list them with: oncebox source list")
    return found[0]


def exists(tx: Transaction, tenant: str, name: str) -> bool:
    """Say whether the database has a source."""
    return bool(tx.all(_sql.by_name, tenant=tenant, name=name))


def by_public_id(tx: Transaction, public_id: str) -> StoredSource:
    """Return the source an address leads to."""
    row = tx.one(_sql.by_public_id, public_id=public_id)
    return by_name(tx, *(row or ("", "")))


def lock_changes(tx: Transaction) -> None:
    """Lock out other changes of sources until the commit."""
    tx.run(_sql.take_turn)


def add(tx: Transaction, new: StoredSource) -> None:
    """Store a new source and its secrets."""
    lock_changes(tx)
    added = tx.run(
        _sql.add,
        tenant=new.tenant,
        name=new.name,
        public_id=new.public_id,
        settings=_json(new.table),
        paused=int(new.paused),
        now=new.created_at,
    )
    if not added:
        raise StateConflict(
            f"there is a source {new.name} already; change it with: oncebox source set {new.name}"
            if exists(tx, new.tenant, new.name)
            else "this public id is taken; choose another one with --public-id"
        )
    for secret in new.secrets:
        add_secret(tx, new.tenant, new.name, secret)


def change(
    tx: Transaction, before: StoredSource, table: dict[str, Any], *, paused: bool, now: int
) -> None:
    """Rewrite a source; the caller has called ``lock_changes`` before reading it."""
    changed = tx.run(
        _sql.change,
        tenant=before.tenant,
        name=before.name,
        settings=_json(table),
        paused=int(paused),
        now=now,
    )
    if not changed:
        by_name(tx, before.tenant, before.name)


def remove(tx: Transaction, tenant: str, name: str) -> None:
    """Delete a source and its secrets; its deliveries stay."""
    lock_changes(tx)
    by_name(tx, tenant, name)
    tx.run(_sql.remove_secrets, tenant=tenant, name=name)
    tx.run(_sql.remove, tenant=tenant, name=name)


def add_secret(tx: Transaction, tenant: str, name: str, secret: StoredSecret) -> None:
    """Store one more secret."""
    lock_changes(tx)
    added = tx.run(
        _sql.add_secret,
        id=secret.id,
        tenant=tenant,
        name=name,
        sealed=secret.ciphertext,
        reference=secret.reference,
        now=secret.created_at,
    )
    if not added:
        by_name(tx, tenant, name)


def retire_secret(tx: Transaction, tenant: str, name: str, id_: str, *, at: int, now: int) -> None:
    """Stop accepting a secret at ``at``; its value is erased then."""
    lock_changes(tx)
    if all(secret.id != id_ for secret in by_name(tx, tenant, name).secrets):
        raise NotFound(
            f"the source has no such secret; list them with: oncebox source secret list {name}"
        )
    tx.run(_sql.retire_secret, tenant=tenant, name=name, id=id_, at=at)
    erase_retired_secrets(tx, now)


def erase_retired_secrets(tx: Transaction, now: int) -> int:
    """Erase the values of secrets whose time has passed; return how many there were."""
    return tx.run(_sql.erase_retired, now=now)


def _grouped(rows: Sequence[Row]) -> Iterator[StoredSource]:
    """Yield the sources of joined rows: a source's seven columns, then those of a secret."""
    for head, group in groupby(rows, key=lambda row: row[:7]):
        tenant, name, public_id, settings, paused, created_at, changed_at = head
        table = msgspec.json.decode(settings, type=dict[str, Any])
        secrets = tuple(StoredSecret(*row[7:]) for row in group if row[7] is not None)
        yield StoredSource(
            tenant, name, public_id, table, bool(paused), created_at, changed_at, secrets
        )


def _json(table: dict[str, Any]) -> str:
    return msgspec.json.encode(table).decode()


#: processes that look up variables, each with what to do if one is not set
SERVICE = "the service; set it, and start the service again"
COMMAND = "this command; set it"
COMMAND_ABOUT_SERVICE = (
    "this command; the service reads it in its own: set it there before oncebox serve"
)

_ENV, _FILE = "env:", "file:"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: the longest secret, in characters or bytes; a certificate fits
_LONGEST_SECRET = 65_536


def is_reference(text: str) -> bool:
    """Say whether a text points to a secret instead of being one."""
    return text.startswith((_ENV, _FILE))


def refuse_references(texts: Iterable[str]) -> None:
    """Keep remote callers from having this host's files and variables read.

    Raises: ConfigInvalid.
    """
    if any(map(is_reference, texts)):
        raise ConfigInvalid(
            "references to variables and files are taken at the terminal and in the settings "
            "file only; send the secret itself"
        )


def check_secret(text: str) -> None:
    """Refuse what is neither a secret nor a reference; errors never quote the text."""
    if text.startswith(_ENV) and not _VARIABLE.fullmatch(text.removeprefix(_ENV)):
        raise ConfigInvalid("after env: comes the name of a variable, such as env:STRIPE_SECRET")
    if text.startswith(_FILE) and not text.removeprefix(_FILE).strip("\0 "):
        raise ConfigInvalid("after file: comes a path, such as file:/run/secrets/stripe")
    if not 1 <= len(text) <= _LONGEST_SECRET:
        raise ConfigInvalid(f"a secret has between 1 and {_LONGEST_SECRET} characters")


def encrypt_secret(
    master_key: MasterKey, *, tenant: str, id_: str, text: str, created_at: int
) -> StoredSecret:
    """Return a secret in its stored form: a reference as it is, a value encrypted."""
    check_secret(text)
    if is_reference(text):
        return StoredSecret(id_, None, text, created_at)
    aad = secret_aad(tenant, id_)
    ciphertext = master_key.encrypt(text.encode(), bound_to=aad, purpose=SOURCE_SECRET)
    return StoredSecret(id_, ciphertext, None, created_at)


def decrypt_secret(
    stored: StoredSecret,
    *,
    tenant: str,
    master_key: MasterKey,
    environ: Mapping[str, str],
    process: str = SERVICE,
) -> SourceSecret:
    """Return a secret with its value."""
    if stored.reference is not None:
        value = resolve_reference(stored.reference, environ, process)
    elif stored.ciphertext is not None:
        aad = secret_aad(tenant, stored.id)
        value = master_key.decrypt(stored.ciphertext, bound_to=aad, purpose=SOURCE_SECRET).decode()
    else:
        raise SecretUnavailable("this secret was retired and its value erased; add a new one")
    return SourceSecret(
        id=stored.id,
        value=value,
        reference=stored.reference,
        created_at=stored.created_at,
        retired_at=stored.retired_at,
    )


def resolve_reference(reference: str, environ: Mapping[str, str], process: str = SERVICE) -> str:
    """Return the secret a reference points to, without white space around it.

    Raises: SecretUnavailable, naming the process and what helps.
    """
    if reference.startswith(_FILE):
        return _from_file(Path(reference.removeprefix(_FILE)))
    name = reference.removeprefix(_ENV)
    value = environ.get(name, "").strip()
    if not value:
        raise SecretUnavailable(f"the variable {name} is not set in the environment of {process}")
    return value


def _from_file(path: Path) -> str:
    try:
        # A pipe or device might never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise SecretUnavailable(f"{path} is not a file; name the file that holds the secret")
        with path.open("rb") as file:
            value = file.read(_LONGEST_SECRET + 1).decode().strip()
    except (OSError, ValueError) as error:
        raise SecretUnavailable(
            f"the file {path} cannot be read as text; check that it is there and readable"
        ) from error
    if not 1 <= len(value) <= _LONGEST_SECRET:
        raise SecretUnavailable(f"the file {path} is empty or too long; put the secret into it")
    return value


def secret_aad(tenant: str, id_: str) -> bytes:
    """Bind an encrypted secret to its tenant and row."""
    return f"oncebox_source_secrets\0{tenant}\0{id_}\0sealed".encode()
