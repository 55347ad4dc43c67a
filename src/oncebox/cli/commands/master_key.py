"""`oncebox key rotate-master`: replaces the master key and encrypts all values again."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.files import master_key_path
from oncebox.cli.options import audit_entry, audit_options
from oncebox.components import Components
from oncebox.core import encryption, faults
from oncebox.core.encryption import MasterKey
from oncebox.core.files import sync_folder, write_private_file
from oncebox.errors import MasterKeyMissing, MasterKeyRotating
from oncebox.ledger import master_key_rotation
from oncebox.ledger.master_key_rotation import Batch, Rotation
from oncebox.settings import Settings


@click.command(
    "rotate-master",
    epilog=examples(
        "oncebox key rotate-master",
        "oncebox key rotate-master --new-key-file /run/secrets/oncebox-2.key",
    ),
)
@click.option(
    "--new-key-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the new key.  [a new one beside the database]",
)
@audit_options
@with_context
def rotate_master(call: CommandContext, *, new_key_file: Path | None, who: str, why: str) -> None:
    """Replace the master key and encrypt all values again, while services run.

    If it is interrupted, run it again: it goes on. Until the end both keys open the database. A
    key that is set by ONCEBOX_MASTER_KEY or ONCEBOX_MASTER_KEY_FILE stays valid until you have set
    the new one and run this again without --new-key-file.
    """

    async def work(components: Components) -> dict[str, Any]:
        rotation = _Rotation(components, new_key_file)
        await rotation.encrypt()
        if rotation.place_key_file():
            entry = audit_entry(components, None, who=who, why=why)
            await rotation.finish(entry)
        return rotation.result()

    result = call.run(work)
    call.out.report(result, _lines(result), name=result["master_key_id"])


class _Rotation:
    """One call of the command, which may go on with an earlier one."""

    def __init__(self, components: Components, new_key_file: Path | None) -> None:
        self._components = components
        self._new_key_file = new_key_file
        self._path = _own_key_file(components.settings)
        self._configured = self._target = components.master_key
        self._counts: Counter[str] = Counter()
        self._finished = False
        self._kept: Path | None = None

    async def encrypt(self) -> None:
        """Begin, or go on, until all values are encrypted with the new data key."""
        database = self._components.database
        begun = await database.read(master_key_rotation.current)
        if begun is None:
            self._target = self._new_key()
            await database.write(
                master_key_rotation.begin,
                self._configured,
                self._target,
                database.clock(),
                learn_within=master_key_rotation.LEARN_WITHIN,
            )
            faults.point("rotation.begun")
        else:
            self._target = self._key_of(begun)
        await master_key_rotation.encrypt_all(
            database, self._target, self._count, learn_within=master_key_rotation.LEARN_WITHIN
        )

    def place_key_file(self) -> bool:
        """Put the new key in the place of the old one; False if that is the operator's to do.

        Raises: MasterKeyRotating.
        """
        if self._path is None:
            return self._configured.id == self._target.id
        found = encryption.master_key_from_file(self._path)
        if found.id != self._target.id:
            self._install_draft(self._path, found.id)
        faults.point("rotation.key-file-placed")
        return True

    async def finish(self, entry: Any) -> None:
        """Retire the old key."""
        await self._components.database.write(master_key_rotation.finish, self._target.id, entry)
        self._finished = True

    def result(self) -> dict[str, Any]:
        """Return what was done."""
        return {
            "master_key_id": self._target.id,
            "finished": self._finished,
            "encrypted": self._counts["encrypted"],
            "unreadable": self._counts["unreadable"],
            "old_key_file": None if self._kept is None else str(self._kept),
        }

    def _new_key(self) -> MasterKey:
        """Return the key of --new-key-file, or of a new file beside the database.

        Raises: MasterKeyMissing.
        """
        if self._new_key_file is not None:
            return self._given_key(self._new_key_file)
        if self._path is None:
            raise MasterKeyMissing(
                "the master key is not in a file beside the database; make a new one with: "
                "openssl rand -base64 32 > new.key, then run: oncebox key rotate-master "
                "--new-key-file new.key"
            )
        return encryption.load_or_create_master_key(_draft(self._path))

    def _key_of(self, begun: Rotation) -> MasterKey:
        """Return the key that a rotation has begun for; no other is made or taken.

        Raises: MasterKeyMissing, MasterKeyRotating.
        """
        file = self._new_key_file
        if file is not None and encryption.master_key_from_file(file).id == begun.new_key_id:
            return self._given_key(file)
        if file is None and self._configured.id == begun.new_key_id:
            return self._configured
        draft = None if self._path is None else _draft(self._path)
        if file is None and draft is not None and draft.exists():
            found = encryption.master_key_from_file(draft)
            if found.id == begun.new_key_id:
                return found
        raise _other_key(begun.new_key_id)

    def _given_key(self, file: Path) -> MasterKey:
        """Return the key of a file, and make it the draft; another draft is kept under its id."""
        given = encryption.master_key_from_file(file)
        if self._path is None or given.id == self._configured.id:
            return given
        draft = _draft(self._path)
        if draft.exists():
            found = encryption.master_key_from_file(draft)
            if found.id != given.id:
                write_private_file(_kept(self._path, found.id), draft.read_bytes())
        write_private_file(draft, file.read_bytes(), replace=True)
        return given

    def _install_draft(self, path: Path, old_key_id: str) -> None:
        """Replace the key file by the draft, if that is the key that values are encrypted for."""
        draft = _draft(path)
        if not draft.exists() or encryption.master_key_from_file(draft).id != self._target.id:
            raise _other_key(self._target.id)
        self._kept = _kept(path, old_key_id)
        write_private_file(self._kept, path.read_bytes())
        draft.replace(path)
        sync_folder(path.parent)

    def _count(self, batch: Batch) -> None:
        self._counts += Counter(encrypted=batch.encrypted, unreadable=batch.unreadable)


def _own_key_file(settings: Settings) -> Path | None:
    """Return the key file beside the database; None if the operator provides the key."""
    if settings.master_key or settings.master_key_file:
        return None
    return master_key_path(settings)


def _draft(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _kept(path: Path, key_id: str) -> Path:
    return path.with_name(f"{path.name}.{key_id}")


def _other_key(new_key_id: str) -> MasterKeyRotating:
    return MasterKeyRotating(
        f"the database is being rotated to the master key {new_key_id}; give the file with that "
        "key: oncebox key rotate-master --new-key-file FILE (after a restore it is the key that "
        "was in use last: oncebox.key of that time). Until then the key in use opens the database"
    )


def _lines(result: dict[str, Any]) -> list[tuple[object, ...]]:
    lines: list[tuple[object, ...]] = [
        ("master key", result["master_key_id"], "rotated" if result["finished"] else "added"),
        ("encrypted", result["encrypted"]),
    ]
    if result["unreadable"]:
        lines.append(("unreadable", result["unreadable"], "damaged before; left as they are"))
    if result["old_key_file"]:
        advice = "backups made before need it; delete it with the last of them"
        lines.append(("old key", result["old_key_file"], advice))
    if not result["finished"]:
        lines.append(
            (
                "next",
                "set the new key on every host and restart, then run: oncebox key rotate-master",
            )
        )
    return lines
