"""`oncebox migrate`, `backup` and `restore`: schema, backup archive, paused restore."""

import asyncio
import errno
import fcntl
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import click
import msgspec

from oncebox.cli import files as cli_files
from oncebox.cli.context import CommandContext, database_file, examples, with_context
from oncebox.cli.files import settings_file
from oncebox.cli.options import audit_options
from oncebox.cli.output.progress import byte_progress
from oncebox.cli.output.redaction import redacted_url
from oncebox.cli.output.times import file_timestamp, iso_time
from oncebox.components import Components
from oncebox.core import clock, encryption, faults, files
from oncebox.db import migrate, sqlite_backup, startup
from oncebox.db import migrate as migrations
from oncebox.db.sqlite_backup import Archive, Manifest
from oncebox.errors import (
    BackupDamaged,
    DatabaseReadOnly,
    DiskFull,
    MasterKeyMissing,
    MasterKeyWrong,
    NotFound,
    OnceboxError,
    StateConflict,
)
from oncebox.ledger import maintenance
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.model.sends.transports import ConfiguredTransport
from oncebox.settings import Settings


@click.command("migrate")
@with_context
def migrate_database(call: CommandContext) -> None:
    """Migrate the database to this version and print the applied migrations.

    Migrations only go forward and cannot be undone; several hosts may call this at the same time.
    The service and commands that write also migrate a SQLite database.
    """
    applied = asyncio.run(_apply_migrations(call.settings()))
    if call.out.as_json:
        call.out.record({"applied": applied})
    elif not call.out.quiet:
        for name in applied or ["nothing to do"]:
            call.out.line(f"applied {name}" if applied else name)


async def _apply_migrations(settings: Settings) -> list[str]:
    database = startup.connect(settings.database, connections=1)
    try:
        return await migrations.migrate(database)
    finally:
        await database.close()


_MEBIBYTE = 1024 * 1024
_DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def staging_folder(folder: Path, room: int) -> Iterator[Path]:
    """Make a private folder for one process, empty, with room for so many bytes; remove it after.

    What a killed process has left in it is thrown away by the next.

    Raises: StateConflict, DiskFull, DatabaseReadOnly.
    """
    try:
        handle = _lock_folder(folder)
        try:
            for left in folder.iterdir():
                left.unlink()
            _check_free_space(folder, room)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)
    except OSError as error:
        raise _folder_error(folder.parent, error) from error


def _lock_folder(folder: Path) -> int:
    """Have the folder for ourselves; whoever does not get it leaves it alone.

    Where anybody may make folders, one of this name may be a trap: a link to files that would
    be thrown away, or somebody's own, in which the copy could be read.
    """
    made = _make_folder(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not made:
            _check_owner(folder, handle)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise StateConflict(
                f"another process is at work in {folder}; wait for it, or stop it"
            ) from error
        raise
    return handle


def _check_owner(folder: Path, handle: int) -> None:
    if os.fstat(handle).st_uid != os.geteuid():
        raise StateConflict(
            f"{folder} belongs to somebody else; remove it, or choose another folder"
        )


def _make_folder(folder: Path) -> bool:
    """Make the folder; say whether it was not there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _check_free_space(folder: Path, room: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < room:
        raise DiskFull(
            f"{folder.parent} has {free // _MEBIBYTE} MiB free and {room // _MEBIBYTE} MiB are "
            "needed; free some room, or choose another folder"
        )


def _folder_error(folder: Path, error: OSError) -> OnceboxError:
    if error.errno in _DISK_FULL_ERRORS:
        return DiskFull(f"the disk of {folder} is full; nothing was changed; free some room")
    message = f"{folder} cannot be used ({error.strerror}); choose another, or check its owner"
    return DatabaseReadOnly(message)


#: what is needed beside twice the database, for templates and the like
_BACKUP_SPARE = 16 * 1024 * 1024


@click.command(
    "backup",
    epilog=examples(
        "oncebox backup /mnt/backups",
        "oncebox backup before-upgrade.tar",
        "oncebox backup --with-key /mnt/safe/oncebox.tar --force",
    ),
)
@click.argument("dest", type=click.Path(path_type=Path))
@click.option(
    "--with-key",
    is_flag=True,
    help="Include the master key and the settings file; protect the backup like the key.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@with_context
def backup(call: CommandContext, *, dest: Path, with_key: bool, force: bool) -> None:
    """Back up the database and the templates into one file, also while the service runs.

    DEST is the file to write, or a folder in which the file is named by the time. The backup holds
    everything acknowledged before the command started. It is verified before it gets its name,
    and needs space for two copies while it is made. It cannot be restored without the master
    key; store that separately.
    """
    settings, made_at = call.settings(), clock.system()
    source = _database_to_copy(settings)
    target = _backup_path(dest.absolute(), made_at)
    _check_target(target, force=force)
    _check_not_own_file(target, source, settings)
    making = target.with_name(f".{target.name}.making")
    with staging_folder(making, 2 * sqlite_backup.database_size(source) + _BACKUP_SPARE) as folder:
        packed = folder / "packed"
        manifest = _pack(call, settings, source, packed, made_at, with_key=with_key)
        files.sync_file(packed)
        faults.point("backup.packed")
        packed.replace(target)
        files.sync_folder(target.parent)
    _print_backup(call, target, manifest, cli_files.master_key_path(settings))


def _database_to_copy(settings: Settings) -> Path:
    path = database_file(settings)
    if path is None:
        raise StateConflict(
            "PostgreSQL has its own tools: copy the database with pg_dump, put it back with "
            "pg_restore, and before anything is started run: oncebox restore --pause-only"
        )
    if not path.exists():
        raise NotFound(f"there is no database at {path}; check --data-dir")
    return path


def _backup_path(dest: Path, made_at: int) -> Path:
    return dest / f"oncebox-{file_timestamp(made_at)}.tar" if dest.is_dir() else dest


def _check_target(target: Path, *, force: bool) -> None:
    """Replace nothing unless told, and make no folder: perhaps a disk is not mounted."""
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent}; make it, or mount it")
    if target.exists() and not force:
        raise StateConflict(f"{target} is there already; choose another name, or say --force")


def _check_not_own_file(target: Path, source: Path, settings: Settings) -> None:
    """Put nothing in the place of what is copied, whatever was told."""
    own = (
        source,
        *sqlite_backup.sidecar_files(source),
        cli_files.master_key_path(settings),
        settings_file(),
    )
    if target.resolve() in [each.resolve() for each in own if each is not None]:
        raise StateConflict(f"{target} is in use by Oncebox itself; choose another name")


def _pack(
    call: CommandContext,
    settings: Settings,
    source: Path,
    packed: Path,
    made_at: int,
    *,
    with_key: bool,
) -> Manifest:
    """Copy, check and pack everything; return what the archive says of itself."""
    made = packed.with_name(sqlite_backup.DATABASE_FILE)
    with byte_progress(call.out, "copying", sqlite_backup.database_size(source)) as advance:
        sqlite_backup.copy_database(source, made, advance)
    faults.point("backup.copied")
    key_id, schema = sqlite_backup.verify_database(made)
    manifest = Manifest(
        made_at=made_at, version=version("oncebox"), master_key_id=key_id, schema=schema
    )
    files: dict[str, Path | bytes] = {sqlite_backup.DATABASE_FILE: made}
    files.update(_template_files(settings))
    if with_key:
        files.update(_key_and_settings_files(settings, key_id))
    packed.touch(mode=0o600)
    with byte_progress(call.out, "packing", made.stat().st_size) as advance:
        return sqlite_backup.write_archive(packed, manifest, files, advance)


def _template_files(settings: Settings) -> Iterator[tuple[str, bytes]]:
    folder = settings.templates_folder
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_file() and not path.name.startswith("."):
            yield f"{sqlite_backup.TEMPLATES_PREFIX}{path.name}", path.read_bytes()


def _key_and_settings_files(settings: Settings, key_id: str) -> Iterator[tuple[str, bytes]]:
    """Return what opens the rest.

    Raises: MasterKeyError.
    """
    text = cli_files.read_master_key(settings)
    if text is None:
        raise MasterKeyMissing(
            f"there is no key file {cli_files.master_key_path(settings)} to put in"
        )
    found = encryption.master_key_from_text(text).id
    if found != key_id:
        raise MasterKeyWrong(
            f"the database belongs to master key {key_id}, and {found} is configured"
        )
    yield sqlite_backup.KEY_FILE, f"{text.strip()}\n".encode()
    file = settings_file()
    if file.is_file():
        yield sqlite_backup.SETTINGS_FILE, file.read_bytes()


def _print_backup(call: CommandContext, target: Path, manifest: Manifest, key: Path | None) -> None:
    size = target.stat().st_size
    if call.out.as_json:
        call.out.record({
            "file": str(target),
            "size": size,
            "made_at": manifest.made_at,
            "master_key_id": manifest.master_key_id,
            "files": list(manifest.files),
        })  # fmt: skip
    elif call.out.quiet:
        call.out.line(target)
    else:
        call.out.outline([
            ("backup", target),
            ("bytes", size),
            ("made", iso_time(manifest.made_at)),
            ("master key", manifest.master_key_id, _key_advice(manifest, key)),
        ])  # fmt: skip


def _key_advice(manifest: Manifest, key: Path | None) -> str:
    if sqlite_backup.KEY_FILE in manifest.files:
        return "is in it: who has this file can open everything"
    where = "what ONCEBOX_MASTER_KEY says" if key is None else str(key)
    return f"is not in it: keep {where} in another place"


#: what is needed beside the database, for its log while it is made ready
_RESTORE_SPARE = 64 * 1024 * 1024


class _Operator(NamedTuple):
    """Who does it, and why."""

    who: str
    why: str


class _RestoreResult(msgspec.Struct, frozen=True, kw_only=True):
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
@click.option("--force", is_flag=True, help="Replace an existing database, and keep it.")
@click.option(
    "--pause-only",
    is_flag=True,
    help="Only pause the transports, after a restore by other means.",
)
@audit_options
@with_context
def restore(
    call: CommandContext, *, src: Path | None, force: bool, pause_only: bool, who: str, why: str
) -> None:
    """Replace the database by a backup while nothing runs, and pause all transports.

    The backup does not know of mail sent after it was made, which would be sent again. So every
    transport is paused: check what waits, then resume each. An interrupted restore leaves the old
    or the new database. The replaced one is kept beside it.
    """
    if (src is None) == (not pause_only):
        raise click.UsageError("name the backup, or say --pause-only")
    entry = _Operator(who, why)
    outcome = _pause_only(call, entry) if src is None else _restore(call, src, entry, force=force)
    _print_restore(call, src, outcome)


def _pause_only(call: CommandContext, entry: _Operator) -> _RestoreResult:
    async def work(components: Components) -> _RestoreResult:
        paused = await components.database.write(
            maintenance.void_leases_and_pause,
            now=components.database.clock(),
            who=entry.who,
            why=entry.why or "restored by other means",
        )
        return _RestoreResult(
            database=_database_location(components.settings), paused=_paused_transports(paused)
        )

    return call.run(work)


def _database_location(settings: Settings) -> str:
    """Return where the data lies, without a password."""
    path = database_file(settings)
    return str(path) if path else redacted_url(settings.database)


def _restore(call: CommandContext, src: Path, entry: _Operator, *, force: bool) -> _RestoreResult:
    settings = call.settings()
    path = _restore_target(settings, force=force)
    with Archive(src.absolute()) as packed:
        key, templates = _check_master_key(settings, packed), _archived_templates(packed)
        made_at = packed.manifest.made_at
        making = path.with_name(f"{path.name}.restoring")
        with staging_folder(
            making, packed.manifest.files[sqlite_backup.DATABASE_FILE].size + _RESTORE_SPARE
        ) as folder:
            made = folder / sqlite_backup.DATABASE_FILE
            _unpack(call, packed, made)
            paused = asyncio.run(_migrate_and_pause(made, made_at, entry))
            faults.point("restore.ready")
            _copy_owner(made, path)
            if path.exists():
                shutil.copymode(path, made)
            if key is not None:
                files.write_private_file(*key)
                _copy_owner(key[0], path)
            kept = path.with_name(f"{path.name}.replaced-{file_timestamp(clock.system())}")
            replaced = sqlite_backup.replace_database(made, path, kept)
            faults.point("restore.placed")
        written, left = _write_templates(settings.templates_folder, templates)
        return _RestoreResult(
            database=str(path),
            made_at=made_at,
            replaced=str(kept) if replaced else None,
            templates=written,
            templates_left=left,
            settings_inside=sqlite_backup.SETTINGS_FILE in packed.manifest.files,
            paused=_paused_transports(paused),
        )


def _restore_target(settings: Settings, *, force: bool) -> Path:
    path = database_file(settings)
    if path is None:
        raise StateConflict("put a PostgreSQL database back with pg_restore, then say --pause-only")
    if not force and path.exists() and path.stat().st_size:
        raise StateConflict(
            f"there is a database at {path}; to replace it, say --force: it is kept beside"
        )
    return path


def _check_master_key(settings: Settings, packed: Archive) -> tuple[Path, bytes] | None:
    """Make sure that the key is there which opens the backup; return what is to be written.

    Raises: MasterKeyError.
    """
    wanted, place = packed.manifest.master_key_id, cli_files.master_key_path(settings)
    text = cli_files.read_master_key(settings)
    if text is not None:
        found = encryption.master_key_from_text(text).id
        if found == wanted:
            return None
        where = "ONCEBOX_MASTER_KEY" if place is None else str(place)
        raise MasterKeyWrong(
            f"the backup belongs to master key {wanted}, and {where} holds {found}; give the "
            "right one, or move the file away if the backup has it inside"
        )
    if place is None or sqlite_backup.KEY_FILE not in packed.manifest.files:
        raise MasterKeyMissing(
            f"the backup belongs to master key {wanted}, which is not here; put its file at "
            f"{place}, or name it with ONCEBOX_MASTER_KEY_FILE"
        )
    inside = packed.read_bytes(sqlite_backup.KEY_FILE)
    if encryption.master_key_from_text(inside.decode("ascii", "replace")).id != wanted:
        raise BackupDamaged(
            "the master key in the backup is not the one it belongs to; take another one"
        )
    return place, inside


def _unpack(call: CommandContext, packed: Archive, made: Path) -> None:
    """Write the database out, and read it through.

    Raises: BackupDamaged, DatabaseCorrupt.
    """
    with (
        byte_progress(
            call.out, "unpacking", packed.manifest.files[sqlite_backup.DATABASE_FILE].size
        ) as advance,
        made.open("xb") as file,
    ):
        made.chmod(0o600)
        packed.unpack(sqlite_backup.DATABASE_FILE, file, advance)
    faults.point("restore.unpacked")
    key_id, _ = sqlite_backup.verify_database(made)
    if key_id != packed.manifest.master_key_id:
        raise BackupDamaged("the database in the backup belongs to another master key than it says")


async def _migrate_and_pause(
    made: Path, made_at: int, entry: _Operator
) -> list[ConfiguredTransport]:
    """Bring a database to this version and let nothing leave it, before anybody sees it.

    Raises: SchemaTooNew, MigrationChanged.
    """
    database = startup.connect(f"sqlite:///{quote(str(made))}")
    try:
        await migrate.migrate(database)
        return await database.write(
            maintenance.void_leases_and_pause,
            now=database.clock(),
            who=entry.who,
            why=entry.why or f"restored from a backup of {iso_time(made_at)}",
        )
    finally:
        await database.close()


def _copy_owner(new: Path, like: Path) -> None:
    """Let a new file belong to whom a file belongs, or its folder: root restores for others."""
    found = (like if like.exists() else like.parent).stat()
    with suppress(PermissionError):  # whoever is not root makes files of their own
        os.chown(new, found.st_uid, found.st_gid)


def _archived_templates(packed: Archive) -> dict[str, bytes]:
    """Return the templates by the names of their files.

    Raises: BackupDamaged.
    """
    return {
        file: packed.read_bytes(name)
        for name in packed.manifest.files
        if name == f"{sqlite_backup.TEMPLATES_PREFIX}{(file := Path(name).name)}"
    }


def _write_templates(folder: Path, templates: dict[str, bytes]) -> tuple[list[str], list[str]]:
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
            _copy_owner(path, folder)
        except (OSError, ValueError):
            left.append(name)
        else:
            written.append(name)
    return written, left


def _paused_transports(paused: Sequence[ConfiguredTransport]) -> list[dict[str, str]]:
    return [{"tenant": each.tenant, "transport": each.name} for each in paused]


def _print_restore(call: CommandContext, src: Path | None, outcome: _RestoreResult) -> None:
    if call.out.as_json:
        call.out.record(outcome)
    elif not call.out.quiet:
        call.out.outline(_restore_lines(src, outcome))


def _restore_lines(src: Path | None, outcome: _RestoreResult) -> Iterator[tuple[object, ...]]:
    """Say what was done, what may happen again, and what to do now."""
    yield "restored", outcome.database
    if outcome.made_at is not None:
        yield "as of", iso_time(outcome.made_at)
    if outcome.replaced is not None:
        yield "kept", outcome.replaced, "what was there before; delete it when all is well"
    for name in outcome.templates:
        yield "template", name
    for name in outcome.templates_left:
        yield (
            "template",
            name,
            f"cannot be written; tar -xOf {src} {sqlite_backup.TEMPLATES_PREFIX}{name}",
        )
    if outcome.settings_inside:
        yield "settings", "are in the backup", f"tar -xOf {src} {sqlite_backup.SETTINGS_FILE}"
    for way in outcome.paused:
        yield "paused", way["transport"], way["tenant"]
    yield "mail", "what left after that time is not known here, and would leave again"
    yield "deliveries", "what was done after that time may run again; its journal is gone"
    yield "look", "oncebox send list --state pending"
    yield "start", "oncebox serve --role edge", "takes in, and runs and sends nothing"
    for way in outcome.paused:
        yield "then", shlex.join(["oncebox", "transport", "resume", *_resume_arguments(way)])


def _resume_arguments(way: dict[str, str]) -> list[str]:
    tenant = [] if way["tenant"] == DEFAULT_TENANT else ["--tenant", way["tenant"]]
    return [way["transport"], *tenant]
