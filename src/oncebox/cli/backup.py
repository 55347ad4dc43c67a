"""``oncebox backup``: a copy of everything, in one file, while the service runs."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from oncebox import clock, faults, seal
from oncebox.assembly import templates_of
from oncebox.cli import key_file
from oncebox.cli.call import Call, database_file, examples, with_call
from oncebox.cli.origins import settings_file
from oncebox.cli.progress import bar
from oncebox.cli.words import moment, stamp
from oncebox.cli.workshop import workshop
from oncebox.config import Settings
from oncebox.errors import MasterKeyMissing, MasterKeyWrong, NotFound, StateConflict
from oncebox.store import archive, snapshot
from oncebox.store.archive import Manifest

#: what is needed beside twice the database, for templates and the like
_SPARE = 16 * 1024 * 1024


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
    help="Put the master key and the settings file in too; guard it as you guard the key.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@with_call
def backup(call: Call, *, dest: Path, with_key: bool, force: bool) -> None:
    """Copy the database and the templates into one file, also while everything runs.

    DEST is the file to write, or a folder in which it gets a name with the time. The copy holds
    all that was acknowledged before the command began. It is read through before it gets its
    name, and while it is made it needs room for two. Without the master key it cannot be
    restored; keep that apart.
    """
    settings, made_at = call.settings(), clock.system()
    source = _source(settings)
    target = _target(dest.absolute(), made_at)
    _refuse(target, force=force)
    _refuse_own(target, source, settings)
    making = target.with_name(f".{target.name}.making")
    with workshop(making, 2 * snapshot.size(source) + _SPARE) as folder:
        packed = folder / "packed"
        manifest = _pack(call, settings, source, packed, made_at, with_key=with_key)
        snapshot.sync(packed)
        faults.point("backup.packed")
        packed.replace(target)
        snapshot.sync_folder(target.parent)
    _print(call, target, manifest, key_file.place(settings))


def _source(settings: Settings) -> Path:
    path = database_file(settings)
    if path is None:
        message = (
            "PostgreSQL has its own tools: copy the database with pg_dump, put it back with "
            "pg_restore, and before anything is started run: oncebox restore --pause-only"
        )
        raise StateConflict(message)
    if not path.exists():
        message = f"there is no database at {path}; check --data-dir"
        raise NotFound(message)
    return path


def _target(dest: Path, made_at: int) -> Path:
    return dest / f"oncebox-{stamp(made_at)}.tar" if dest.is_dir() else dest


def _refuse(target: Path, *, force: bool) -> None:
    """Replace nothing unless told, and make no folder: perhaps a disk is not mounted."""
    if not target.parent.is_dir():
        message = f"there is no folder {target.parent}; make it, or mount it"
        raise NotFound(message)
    if target.exists() and not force:
        message = f"{target} is there already; choose another name, or say --force"
        raise StateConflict(message)


def _refuse_own(target: Path, source: Path, settings: Settings) -> None:
    """Put nothing in the place of what is copied, whatever was told."""
    own = (source, *snapshot.beside(source), key_file.place(settings), settings_file())
    if target.resolve() in [each.resolve() for each in own if each is not None]:
        message = f"{target} is in use by Oncebox itself; choose another name"
        raise StateConflict(message)


def _pack(
    call: Call, settings: Settings, source: Path, packed: Path, made_at: int, *, with_key: bool
) -> Manifest:
    """Copy, check and pack everything; return what the archive says of itself."""
    made = packed.with_name(archive.DATABASE)
    with bar(call.out, "copying", snapshot.size(source)) as advance:
        snapshot.copy(source, made, advance)
    faults.point("backup.copied")
    key_id, schema = snapshot.check(made)
    manifest = Manifest(
        made_at=made_at, version=version("oncebox"), master_key_id=key_id, schema=schema
    )
    files: dict[str, Path | bytes] = {archive.DATABASE: made}
    files.update(_templates(settings))
    if with_key:
        files.update(_secrets(settings, key_id))
    packed.touch(mode=0o600)
    with bar(call.out, "packing", made.stat().st_size) as advance:
        return archive.write(packed, manifest, files, advance)


def _templates(settings: Settings) -> Iterator[tuple[str, bytes]]:
    folder = templates_of(settings)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_file() and not path.name.startswith("."):
            yield f"{archive.TEMPLATES}{path.name}", path.read_bytes()


def _secrets(settings: Settings, key_id: str) -> Iterator[tuple[str, bytes]]:
    """Return what opens the rest.

    Raises: MasterKeyError.
    """
    text = key_file.text(settings)
    if text is None:
        message = f"there is no key file {key_file.place(settings)} to put in"
        raise MasterKeyMissing(message)
    found = seal.from_text(text).id
    if found != key_id:
        message = f"the database belongs to master key {key_id}, and {found} is configured"
        raise MasterKeyWrong(message)
    yield archive.KEY, f"{text.strip()}\n".encode()
    file = settings_file()
    if file.is_file():
        yield archive.SETTINGS, file.read_bytes()


def _print(call: Call, target: Path, manifest: Manifest, key: Path | None) -> None:
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
            ("made", moment(manifest.made_at)),
            ("master key", manifest.master_key_id, _apart(manifest, key)),
        ])  # fmt: skip


def _apart(manifest: Manifest, key: Path | None) -> str:
    if archive.KEY in manifest.files:
        return "is in it: who has this file can open everything"
    where = "what ONCEBOX_MASTER_KEY says" if key is None else str(key)
    return f"is not in it: keep {where} in another place"
