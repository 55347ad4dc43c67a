"""The first key: made at the first start, and left where this user's programs find it."""

from pathlib import Path

import msgspec

from oncebox import credentials, ids
from oncebox.credentials import Credentials
from oncebox.ledger.office import audit, keys
from oncebox.model import key as texts
from oncebox.model.key import ApiKey, Scope
from oncebox.store.database import Database, Transaction

_NAME = "first key"


class FirstKey(msgspec.Struct, frozen=True):
    """The credentials of this installation, and whether they were made just now."""

    credentials: Credentials
    path: Path
    #: made by this very call, so that it is shown this once
    new: bool
    #: whether the database knows the key; one of another database is never replaced
    known: bool


async def ensure(database: Database, folder: Path, *, tenant: str, url: str) -> FirstKey:
    """Return the credentials in the data folder, making them and an admin key if there are none.

    A file that is there is never overwritten. Its key is taken into a database that has no key
    yet, as after starting over with an empty one. Any number of processes may call this.

    Raises: ConfigInvalid, NotFound, StoreError.
    """
    found = credentials.read(folder)
    path = credentials.path(folder)
    if found is not None:
        known = await database.write(_adopt, found.key, _deed(database, tenant))
        return FirstKey(found, path, new=False, known=known)
    deed = _deed(database, tenant)
    key, text = keys.make(deed, [Scope.ADMIN], name=_NAME)
    # The key first: a crash in between leaves a key that nobody knows, not a file that lies.
    await database.write(keys.add, key, text, deed)
    mine = Credentials(url=url, key=text)
    try:
        kept = credentials.write(folder, mine)
    except BaseException:
        await database.write(keys.discard, key)
        raise
    if kept != mine:  # another process was faster
        await database.write(keys.discard, key)
    return FirstKey(kept, path, new=kept == mine, known=True)


def _deed(database: Database, tenant: str) -> audit.Deed:
    return audit.Deed(
        id=ids.new("aud"), tenant=tenant, at=database.clock(), who="oncebox", why="first start"
    )


def _adopt(tx: Transaction, text: str, deed: audit.Deed) -> bool:
    """Take the file's key into an empty database; say whether the database knows it."""
    if not texts.is_text(text):
        return False
    if keys.by_digest(tx, texts.digest(text)) is not None:
        return True
    if keys.is_any(tx):
        return False
    key = ApiKey(
        id=ids.new("key"),
        tenant=deed.tenant,
        name=_NAME,
        hint=texts.hint(text),
        scopes=(Scope.ADMIN,),
        created_at=deed.at,
    )
    keys.add(tx, key, text, deed)
    return True
