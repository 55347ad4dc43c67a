"""`oncebox migrate`, `backup` and `restore`: schema, backup archive, paused restore.

See docs/decisions/0008-use-single-file-backups-and-paused-restores.md.
"""

import asyncio
import errno
import fcntl
import io
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import IO
from urllib.parse import quote

import click
import msgspec

from oncebox.cli.context import CommandContext, database_file, examples, with_context
from oncebox.cli.files import database_location, master_key_path, read_master_key, settings_file
from oncebox.cli.options import audit_options
from oncebox.cli.output.progress import byte_progress
from oncebox.cli.output.times import file_timestamp, iso_time
from oncebox.components import Components
from oncebox.core import clock, encryption, faults, files
from oncebox.db import migrate, sqlite_backup, startup
from oncebox.db.database import Database
from oncebox.db.sqlite_backup import (
    DATABASE_FILE,
    KEY_FILE,
    SETTINGS_FILE,
    TEMPLATES_PREFIX,
    Archive,
    Manifest,
    open_archive,
)
from oncebox.errors import (
    BackupDamaged,
    DatabaseReadOnly,
    DiskFull,
    MasterKeyMissing,
    MasterKeyWrong,
    NotFound,
    StateConflict,
)
from oncebox.ledger import maintenance
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.model.sends.transports import ConfiguredTransport
from oncebox.settings import Settings

_MEBIBYTE = 1024 * 1024
#: bytes needed beside twice the database, for templates and the like
_BACKUP_SPARE = 16 * _MEBIBYTE
#: bytes needed beside the database, for its log while it is migrated
_RESTORE_SPARE = 64 * _MEBIBYTE


@click.command("migrate")
@with_context
def migrate_database(call: CommandContext) -> None:
    """Migrate the database to this version and print the applied migrations.

    Migrations only go forward and cannot be undone; several hosts may call this at the same time.
    The service and commands that write also migrate a SQLite database. Rows are converted in
    batches: after an interruption, run it again, and it goes on.
    """

    def report(done: int, total: int) -> None:
        if not call.out.quiet:
            click.echo(f"migrated {done:,} of {total:,} rows", err=True)

    async def work() -> list[str]:
        async with _connected(call.settings().database) as database:
            return await migrate.migrate(database, report)

    applied = asyncio.run(work())
    lines = [f"applied {name}" for name in applied] or ["nothing to do"]
    call.out.report({"applied": applied}, [(line,) for line in lines])


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Database]:
    database = startup.connect(url, connections=1)
    try:
        yield database
    finally:
        await database.close()


@contextmanager
def staging_folder(folder: Path, space: int) -> Iterator[Path]:
    """Create an empty private folder for one process with so much free space; remove it after.

    Files a killed process left in it are deleted by the next.
    """
    try:
        with _locked(folder):
            try:
                for left in folder.iterdir():
                    left.unlink()
                _check_free_space(folder, space)
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFull(
                f"the disk of {folder.parent} is full; nothing was changed; free some space"
            ) from error
        raise DatabaseReadOnly(
            f"{folder.parent} cannot be used ({error.strerror}); choose another folder, or check "
            "its owner"
        ) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create and lock a folder that no other process uses.

    Where everybody may create folders, one of this name may be a trap: a link to files that
    would be deleted, or a folder of another user, who could read the copy.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
        is_new = True
    except FileExistsError:
        is_new = False
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not is_new and os.fstat(handle).st_uid != os.geteuid():
            raise StateConflict(
                f"{folder} belongs to another user; remove it, or choose another folder"
            )
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateConflict(
                f"another process uses {folder}; wait for it, or stop it"
            ) from error
        yield
    finally:
        os.close(handle)


def _check_free_space(folder: Path, space: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < space:
        raise DiskFull(
            f"{folder.parent} has {free // _MEBIBYTE} MiB free and {space // _MEBIBYTE} MiB are "
            "needed; free some space, or choose another folder"
        )


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
    source = database_file(settings)
    if source is None:
        raise StateConflict(
            "PostgreSQL has its own tools: copy the database with pg_dump, restore it with "
            "pg_restore, and before anything is started run: oncebox restore --pause-only"
        )
    if not source.exists():
        raise NotFound(f"there is no database at {source}; check --data-dir")
    target = dest.absolute()
    if target.is_dir():
        target /= f"oncebox-{file_timestamp(made_at)}.tar"
    _check_target(target, source, settings, force=force)
    making = target.with_name(f".{target.name}.making")
    with staging_folder(making, 2 * sqlite_backup.database_size(source) + _BACKUP_SPARE) as folder:
        packed = folder / "packed"
        manifest = _pack(call, settings, source, packed, made_at, with_key=with_key)
        files.sync_file(packed)
        faults.point("backup.packed")
        packed.replace(target)
        files.sync_folder(target.parent)
    _print_backup(call, target, manifest, settings)


def _check_target(target: Path, source: Path, settings: Settings, *, force: bool) -> None:
    """Refuse a missing folder (perhaps a disk is not mounted), existing files and our own files."""
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent}; create or mount it")
    if target.exists() and not force:
        raise StateConflict(f"{target} exists already; choose another name, or use --force")
    own = (source, *sqlite_backup.sidecar_files(source), master_key_path(settings), settings_file())
    if target.resolve() in [path.resolve() for path in own if path is not None]:
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
    """Copy and verify the database, and pack it with the other files."""
    made = packed.with_name(DATABASE_FILE)
    with byte_progress(call.out, "copying", sqlite_backup.database_size(source)) as advance:
        sqlite_backup.copy_database(source, made, advance)
    faults.point("backup.copied")
    key_id, schema = sqlite_backup.verify_database(made)
    manifest = Manifest(
        made_at=made_at, version=version("oncebox"), master_key_id=key_id, schema=schema
    )
    small = _template_files(settings)
    if with_key:
        small |= _key_and_settings_files(settings, key_id)
    packed.touch(mode=0o600)
    with made.open("rb") as database:
        contents: dict[str, IO[bytes]] = {DATABASE_FILE: database}
        contents |= {name: io.BytesIO(content) for name, content in small.items()}
        with byte_progress(call.out, "packing", made.stat().st_size) as advance:
            return sqlite_backup.write_archive(packed, manifest, contents, advance)


def _template_files(settings: Settings) -> dict[str, bytes]:
    folder = settings.templates_folder
    return {
        f"{TEMPLATES_PREFIX}{path.name}": path.read_bytes()
        for path in (sorted(folder.iterdir()) if folder.is_dir() else ())
        if path.is_file() and not path.name.startswith(".")
    }


def _key_and_settings_files(settings: Settings, key_id: str) -> dict[str, bytes]:
    text = read_master_key(settings)
    if text is None:
        raise MasterKeyMissing(f"there is no key file {master_key_path(settings)} to include")
    found = encryption.master_key_from_text(text).id
    if found != key_id:
        raise MasterKeyWrong(
            f"the database belongs to master key {key_id}, and {found} is configured"
        )
    contents = {KEY_FILE: f"{text.strip()}\n".encode()}
    if settings_file().is_file():
        contents[SETTINGS_FILE] = settings_file().read_bytes()
    return contents


def _print_backup(
    call: CommandContext, target: Path, manifest: Manifest, settings: Settings
) -> None:
    size = target.stat().st_size
    if KEY_FILE in manifest.files:
        advice = "is included: this file opens everything"
    else:
        advice = f"is not included: store {_key_location(settings)} in another place"
    call.out.report(
        {
            "file": str(target),
            "size": size,
            "made_at": manifest.made_at,
            "master_key_id": manifest.master_key_id,
            "files": list(manifest.files),
        },
        [
            ("backup", target),
            ("bytes", size),
            ("made", iso_time(manifest.made_at)),
            ("master key", manifest.master_key_id, advice),
        ],
        name=target,
    )


def _key_location(settings: Settings) -> str:
    path = master_key_path(settings)
    return "ONCEBOX_MASTER_KEY" if path is None else str(path)


class _RestoreResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a restore."""

    database: str
    #: when the backup was made; none with --pause-only
    made_at: int | None = None
    #: where the previous database is now
    replaced: str | None = None
    #: templates that were missing
    templates: list[str] = []
    #: missing templates that could not be written
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
        raise click.UsageError("name the backup, or use --pause-only")
    result = (
        _pause_only(call, who, why) if src is None else _restore(call, src, who, why, force=force)
    )
    call.out.report(result, _restore_lines(src, result))


def _pause_only(call: CommandContext, who: str, why: str) -> _RestoreResult:
    async def work(components: Components) -> _RestoreResult:
        database = components.database
        paused = await _void_leases_and_pause(database, who, why or "restored by other means")
        if database.kind == "postgres":  # a dump has no statistics
            for table in await database.read(maintenance.tables_without_statistics):
                await database.write_alone(maintenance.analyse, table)
        return _RestoreResult(database=database_location(components.settings), paused=paused)

    return call.run(work)


async def _void_leases_and_pause(database: Database, who: str, why: str) -> list[dict[str, str]]:
    paused: list[ConfiguredTransport] = await database.write(
        maintenance.void_leases_and_pause, now=database.clock(), who=who, why=why
    )
    return [{"tenant": each.tenant, "transport": each.name} for each in paused]


def _restore(call: CommandContext, src: Path, who: str, why: str, *, force: bool) -> _RestoreResult:
    settings = call.settings()
    path = _restore_target(settings, force=force)
    with open_archive(src.absolute()) as packed:
        manifest = packed.manifest
        key, templates = _check_master_key(settings, packed), _archived_templates(packed)
        making = path.with_name(f"{path.name}.restoring")
        with staging_folder(making, manifest.files[DATABASE_FILE].size + _RESTORE_SPARE) as folder:
            made = folder / DATABASE_FILE
            _unpack(call, packed, made)
            why = why or f"restored from a backup of {iso_time(manifest.made_at)}"
            paused = asyncio.run(_migrate_and_pause(made, who, why))
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
            made_at=manifest.made_at,
            replaced=str(kept) if replaced else None,
            templates=written,
            templates_left=left,
            settings_inside=SETTINGS_FILE in manifest.files,
            paused=paused,
        )


def _restore_target(settings: Settings, *, force: bool) -> Path:
    path = database_file(settings)
    if path is None:
        raise StateConflict("restore a PostgreSQL database with pg_restore, then use --pause-only")
    if not force and path.exists() and path.stat().st_size:
        raise StateConflict(
            f"there is a database at {path}; replace it with --force: it is kept beside the new one"
        )
    return path


def _check_master_key(settings: Settings, packed: Archive) -> tuple[Path, bytes] | None:
    """Check that the backup's master key is there; return the key file to write, if any."""
    wanted, place = packed.manifest.master_key_id, master_key_path(settings)
    text = read_master_key(settings)
    if text is not None:
        found = encryption.master_key_from_text(text).id
        if found == wanted:
            return None
        raise MasterKeyWrong(
            f"the backup belongs to master key {wanted}, and {_key_location(settings)} holds "
            f"{found}; configure the right one, or move the file away if the backup includes it"
        )
    if place is None or KEY_FILE not in packed.manifest.files:
        raise MasterKeyMissing(
            f"the backup belongs to master key {wanted}, which is missing; put its file at "
            f"{place}, or name it with ONCEBOX_MASTER_KEY_FILE"
        )
    inside = packed.read_bytes(KEY_FILE)
    if encryption.master_key_from_text(inside.decode("ascii", "replace")).id != wanted:
        raise BackupDamaged(
            "the master key in the backup is not the one it belongs to; use another backup"
        )
    return place, inside


def _unpack(call: CommandContext, packed: Archive, made: Path) -> None:
    """Write the database to a file and verify it."""
    size = packed.manifest.files[DATABASE_FILE].size
    with byte_progress(call.out, "unpacking", size) as advance, made.open("xb") as file:
        made.chmod(0o600)
        packed.unpack(DATABASE_FILE, file, advance)
    faults.point("restore.unpacked")
    key_id, _ = sqlite_backup.verify_database(made)
    if key_id != packed.manifest.master_key_id:
        raise BackupDamaged("the database in the backup has another master key than the manifest")


async def _migrate_and_pause(made: Path, who: str, why: str) -> list[dict[str, str]]:
    """Migrate a database and pause its transports before any service can open it."""
    async with _connected(f"sqlite:///{quote(str(made))}") as database:
        await migrate.migrate(database)
        return await _void_leases_and_pause(database, who, why)


def _copy_owner(new: Path, like: Path) -> None:
    """Give a new file the owner of another file or its folder: root restores for others."""
    found = (like if like.exists() else like.parent).stat()
    with suppress(PermissionError):  # only root may
        os.chown(new, found.st_uid, found.st_gid)


def _archived_templates(packed: Archive) -> dict[str, bytes]:
    """Return the templates by file name."""
    return {
        file: packed.read_bytes(name)
        for name in packed.manifest.files
        if name == f"{TEMPLATES_PREFIX}{(file := Path(name).name)}"
    }


def _write_templates(folder: Path, templates: dict[str, bytes]) -> tuple[list[str], list[str]]:
    """Write missing templates, never over edited ones; return the written and the failed.

    The database is in place by now, so a failure is only reported.
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


def _restore_lines(src: Path | None, result: _RestoreResult) -> Iterator[tuple[object, ...]]:
    """Say what was done, what may happen again, and what to do now."""
    yield "restored", result.database
    if result.made_at is not None:
        yield "as of", iso_time(result.made_at)
    if result.replaced is not None:
        yield "kept", result.replaced, "the previous database; delete it when all is well"
    for name in result.templates:
        yield "template", name
    for name in result.templates_left:
        command = f"tar -xOf {src} {TEMPLATES_PREFIX}{name}"
        yield "template", name, f"cannot be written; {command}"
    if result.settings_inside:
        yield "settings", "are in the backup", f"tar -xOf {src} {SETTINGS_FILE}"
    for each in result.paused:
        yield "paused", each["transport"], each["tenant"]
    yield "mail", "mail sent after that time is not known here, and would leave again"
    yield "deliveries", "deliveries handled after that time may run again: their journal is gone"
    yield "look", "oncebox send list --state pending"
    yield "start", "oncebox serve --role edge", "receives, but runs and sends nothing"
    for each in result.paused:
        tenant = [] if each["tenant"] == DEFAULT_TENANT else ["--tenant", each["tenant"]]
        yield "then", shlex.join(["oncebox", "transport", "resume", each["transport"], *tenant])
