"""``oncebox restore``: put a backup in place, whole or not at all, with sending paused."""

import asyncio
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import click
import msgspec

from oncebox import clock, faults, seal
from oncebox.assembly import Rooms, templates_of
from oncebox.cli import key_file
from oncebox.cli.call import Call, database_file, examples, with_call
from oncebox.cli.office import signed
from oncebox.cli.progress import bar
from oncebox.cli.redaction import address
from oncebox.cli.words import moment, stamp
from oncebox.cli.workshop import workshop
from oncebox.config import Settings
from oncebox.errors import BackupDamaged, MasterKeyMissing, MasterKeyWrong, StateConflict
from oncebox.ledger import restored
from oncebox.model.tenant import DEFAULT
from oncebox.model.transport import Transport
from oncebox.store import archive, migrate, opening, snapshot
from oncebox.store.archive import Archive

#: what is needed beside the database, for its log while it is made ready
_SPARE = 64 * 1024 * 1024


class _Signed(NamedTuple):
    """Who does it, and why."""

    who: str
    why: str


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore has done."""

    database: str
    #: when the backup was made; none where there was only sending to pause
    made_at: int | None = None
    #: the database that was there before
    replaced: str | None = None
    #: templates that were not there
    templates: list[str] = []
    #: templates that were not there, and could not be written
    templates_left: list[str] = []
    settings_inside: bool = False
    paused: list[dict[str, str]] = []


@click.command(
    "restore",
    epilog=examples(
        "oncebox restore /mnt/backups/oncebox-20260131T120000Z.tar",
        "oncebox restore before-upgrade.tar --force",
        "oncebox restore --pause-only     # after pg_restore",
    ),
)
@click.argument("src", required=False, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the database that is there, and keep it.")
@click.option(
    "--pause-only",
    is_flag=True,
    help="The database was put back by other means: make it safe to start.",
)
@signed
@with_call
def restore(
    call: Call, *, src: Path | None, force: bool, pause_only: bool, who: str, why: str
) -> None:
    """Put a backup in place of the database, while nothing runs, and pause all sending.

    Mail that left after the backup was made is not known to it, and would leave again. So every
    transport is paused: look at what waits, then resume each. A killed restore leaves the old
    database or the new one. The one that is replaced is kept beside it.
    """
    if (src is None) == (not pause_only):
        message = "name the backup, or say --pause-only"
        raise click.UsageError(message)
    deed = _Signed(who, why)
    outcome = _pause_only(call, deed) if src is None else _restore(call, src, deed, force=force)
    _print(call, src, outcome)


def _pause_only(call: Call, deed: _Signed) -> _Outcome:
    async def work(rooms: Rooms) -> _Outcome:
        paused = await rooms.database.write(
            restored.settle_in,
            now=rooms.database.clock(),
            who=deed.who,
            why=deed.why or "restored by other means",
        )
        return _Outcome(database=_place(rooms.settings), paused=_ways(paused))

    return call.run(work)


def _place(settings: Settings) -> str:
    """Return where the data lies, without a password."""
    path = database_file(settings)
    return str(path) if path else address(settings.database)


def _restore(call: Call, src: Path, deed: _Signed, *, force: bool) -> _Outcome:
    settings = call.settings()
    path = _target(settings, force=force)
    with Archive(src.absolute()) as packed:
        key, templates = _key(settings, packed), _templates(packed)
        made_at = packed.manifest.made_at
        making = path.with_name(f"{path.name}.restoring")
        with workshop(making, packed.manifest.files[archive.DATABASE].size + _SPARE) as folder:
            made = folder / archive.DATABASE
            _unpack(call, packed, made)
            paused = asyncio.run(_ready(made, made_at, deed))
            faults.point("restore.ready")
            _give(made, path)
            if path.exists():
                shutil.copymode(path, made)
            if key is not None:
                seal.write_once(*key)
                _give(key[0], path)
            kept = path.with_name(f"{path.name}.replaced-{stamp(clock.system())}")
            replaced = snapshot.place(made, path, kept)
            faults.point("restore.placed")
        written, left = _put_templates(templates_of(settings), templates)
        return _Outcome(
            database=str(path),
            made_at=made_at,
            replaced=str(kept) if replaced else None,
            templates=written,
            templates_left=left,
            settings_inside=archive.SETTINGS in packed.manifest.files,
            paused=_ways(paused),
        )


def _target(settings: Settings, *, force: bool) -> Path:
    path = database_file(settings)
    if path is None:
        message = "put a PostgreSQL database back with pg_restore, then say --pause-only"
        raise StateConflict(message)
    if not force and path.exists() and path.stat().st_size:
        message = f"there is a database at {path}; to replace it, say --force: it is kept beside"
        raise StateConflict(message)
    return path


def _key(settings: Settings, packed: Archive) -> tuple[Path, bytes] | None:
    """Make sure that the key is there which opens the backup; return what is to be written.

    Raises: MasterKeyError.
    """
    wanted, place = packed.manifest.master_key_id, key_file.place(settings)
    text = key_file.text(settings)
    if text is not None:
        found = seal.from_text(text).id
        if found == wanted:
            return None
        where = "ONCEBOX_MASTER_KEY" if place is None else str(place)
        message = (
            f"the backup belongs to master key {wanted}, and {where} holds {found}; give the "
            "right one, or move the file away if the backup has it inside"
        )
        raise MasterKeyWrong(message)
    if place is None or archive.KEY not in packed.manifest.files:
        message = (
            f"the backup belongs to master key {wanted}, which is not here; put its file at "
            f"{place}, or name it with ONCEBOX_MASTER_KEY_FILE"
        )
        raise MasterKeyMissing(message)
    inside = packed.text(archive.KEY)
    if seal.from_text(inside.decode("ascii", "replace")).id != wanted:
        message = "the master key in the backup is not the one it belongs to; take another one"
        raise BackupDamaged(message)
    return place, inside


def _unpack(call: Call, packed: Archive, made: Path) -> None:
    """Write the database out, and read it through.

    Raises: BackupDamaged, DatabaseCorrupt.
    """
    with (
        bar(call.out, "unpacking", packed.manifest.files[archive.DATABASE].size) as advance,
        made.open("xb") as file,
    ):
        made.chmod(0o600)
        packed.unpack(archive.DATABASE, file, advance)
    faults.point("restore.unpacked")
    key_id, _ = snapshot.check(made)
    if key_id != packed.manifest.master_key_id:
        message = "the database in the backup belongs to another master key than it says"
        raise BackupDamaged(message)


async def _ready(made: Path, made_at: int, deed: _Signed) -> list[Transport]:
    """Bring a database to this version and let nothing leave it, before anybody sees it.

    Raises: SchemaTooNew, MigrationChanged.
    """
    database = opening.connect(f"sqlite:///{quote(str(made))}")
    try:
        await migrate.migrate(database)
        return await database.write(
            restored.settle_in,
            now=database.clock(),
            who=deed.who,
            why=deed.why or f"restored from a backup of {moment(made_at)}",
        )
    finally:
        await database.close()


def _give(new: Path, like: Path) -> None:
    """Let a new file belong to whom a file belongs, or its folder: root restores for others."""
    found = (like if like.exists() else like.parent).stat()
    with suppress(PermissionError):  # whoever is not root makes files of their own
        os.chown(new, found.st_uid, found.st_gid)


def _templates(packed: Archive) -> dict[str, bytes]:
    """Return the templates by the names of their files.

    Raises: BackupDamaged.
    """
    return {
        file: packed.text(name)
        for name in packed.manifest.files
        if name == f"{archive.TEMPLATES}{(file := Path(name).name)}"
    }


def _put_templates(folder: Path, templates: dict[str, bytes]) -> tuple[list[str], list[str]]:
    """Write the templates that are not there; what people have edited since stays.

    The database is in place by now, so what cannot be written is only told.
    """
    written, left = [], []
    for name, content in templates.items():
        path = folder / name
        try:
            if path.exists():
                continue
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            _give(path, folder)
        except (OSError, ValueError):
            left.append(name)
        else:
            written.append(name)
    return written, left


def _ways(paused: Sequence[Transport]) -> list[dict[str, str]]:
    return [{"tenant": each.tenant, "transport": each.name} for each in paused]


def _print(call: Call, src: Path | None, outcome: _Outcome) -> None:
    if call.out.as_json:
        call.out.record(outcome)
    elif not call.out.quiet:
        call.out.outline(_story(src, outcome))


def _story(src: Path | None, outcome: _Outcome) -> Iterator[tuple[object, ...]]:
    """Say what was done, what may happen again, and what to do now."""
    yield "restored", outcome.database
    if outcome.made_at is not None:
        yield "as of", moment(outcome.made_at)
    if outcome.replaced is not None:
        yield "kept", outcome.replaced, "what was there before; delete it when all is well"
    for name in outcome.templates:
        yield "template", name
    for name in outcome.templates_left:
        yield "template", name, f"cannot be written; tar -xOf {src} {archive.TEMPLATES}{name}"
    if outcome.settings_inside:
        yield "settings", "are in the backup", f"tar -xOf {src} {archive.SETTINGS}"
    for way in outcome.paused:
        yield "paused", way["transport"], way["tenant"]
    yield "mail", "what left after that time is not known here, and would leave again"
    yield "deliveries", "what was done after that time may run again; its journal is gone"
    yield "look", "oncebox send list --state pending"
    yield "start", "oncebox serve --role edge", "takes in, and runs and sends nothing"
    for way in outcome.paused:
        yield "then", shlex.join(["oncebox", "transport", "resume", *_named(way)])


def _named(way: dict[str, str]) -> list[str]:
    tenant = [] if way["tenant"] == DEFAULT else ["--tenant", way["tenant"]]
    return [way["transport"], *tenant]
