"""``oncebox config show``: every setting, its value and where it comes from; no secrets."""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from oncebox import credentials
from oncebox.assembly import templates_of
from oncebox.cli import key_file
from oncebox.cli.call import Call, database_file, examples, with_call
from oncebox.cli.origins import DEFAULT, Origins, Setting
from oncebox.cli.redaction import HIDDEN, address
from oncebox.config import SendSettings, Settings
from oncebox.errors import ConfigInvalid

_COLUMNS = ("setting", "value", "from", "trouble")
_SERVICE = "http://127.0.0.1:8808"


class _File(msgspec.Struct, frozen=True):
    """A file or folder that is looked for."""

    name: str
    path: str
    there: bool
    problem: str = ""


@click.command(
    "show",
    epilog=examples("oncebox config show", "oncebox config show --json | jq .settings"),
)
@with_call
def show(call: Call) -> None:
    """Show every setting with its value and where it comes from, and the files that are read.

    Secrets, and passwords in addresses, are never shown. A value that cannot be used is shown
    with the reason, and is no failure. -q shows only what is set or in trouble.
    """
    origins = Origins(_typed(call))
    place = _place(origins)
    settings = [*_filled(origins.settings(), place), *_client(place), *origins.strays()]
    files = list(_files(origins, place))
    if call.out.as_json:
        call.out.record({"settings": settings, "files": files})
        return
    wanted = [
        each for each in settings if not call.out.quiet or each.problem or each.origin != DEFAULT
    ]
    call.out.table(
        _COLUMNS, [(each.name, each.value, each.origin, each.problem) for each in wanted]
    )
    for file in files:
        state = file.problem or ("found" if file.there else "not there")
        call.out.line(f"{file.name}: {file.path}", state)


def _typed(call: Call) -> dict[str, tuple[str, str]]:
    """Return what the options set; a folder alone means the database in it."""
    typed: dict[str, tuple[str, str]] = {}
    if call.data_dir is not None:
        typed["data_dir"] = ("--data-dir", str(Path(call.data_dir).absolute()))
        typed["database_url"] = ("--data-dir", "")
    if call.database is not None:
        typed["database_url"] = ("--database", call.database)
    return typed


def _place(origins: Origins) -> Settings:
    """Return the settings that say where things are, as far as they can be used."""

    def text(name: str) -> str:
        value, _ = origins.raw(name)
        return value if isinstance(value, str) else ""

    def path(name: str) -> str:
        return "" if "://" in text(name) else text(name)  # an address, typed in the wrong place

    return Settings(
        data_dir=path("data_dir"),
        database_url=text("database_url"),
        master_key=text("master_key"),
        master_key_file=path("master_key_file"),
        sends=SendSettings(templates=path("sends.templates")),
    )


def _filled(settings: list[Setting], place: Settings) -> Iterator[Setting]:
    """Say what an empty setting comes to."""
    meant = {
        "data_dir": str(place.folder),
        "database_url": place.database,
        "sends.templates": str(templates_of(place)),
    }
    for each in settings:
        if each.name in meant and not each.value:
            yield msgspec.structs.replace(each, value=meant[each.name])
        elif each.name == "master_key" and not each.value and place.master_key_file:
            origin = next(one.origin for one in settings if one.name == "master_key_file")
            yield msgspec.structs.replace(each, value=HIDDEN, origin=origin)
        else:
            yield each


def _client(place: Settings) -> Iterator[Setting]:
    """Say which service the commands that need one would call, and with whose key."""
    file, problem = str(credentials.path(place.folder)), ""
    try:
        filed = credentials.read(place.folder)
    except ConfigInvalid as error:
        filed, problem = None, str(error)
    url = os.environ.get("ONCEBOX_URL", "")
    if url:
        yield Setting("client.url", address(url), "ONCEBOX_URL")
    elif filed is not None:
        yield Setting("client.url", address(filed.url), file)
    else:
        yield Setting("client.url", _SERVICE, DEFAULT, problem)
    for name in ("ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE"):
        if os.environ.get(name):
            yield Setting("client.api_key", HIDDEN, name)
            return
    if filed is not None:
        yield Setting("client.api_key", HIDDEN, file)
    else:
        yield Setting("client.api_key", "", DEFAULT, problem)


def _files(origins: Origins, place: Settings) -> Iterator[_File]:
    """Say which files are looked for, and whether they are there."""
    yield _file("settings", origins.file, origins.file_problem)
    wanted = {
        "database": _database(place),
        "master key": key_file.place(place),
        "credentials": credentials.path(place.folder),
        "templates": templates_of(place),
    }
    named = os.environ.get("ONCEBOX_API_KEY_FILE")
    wanted["api key"] = Path(named).absolute() if named else None
    for name, path in wanted.items():
        if path is not None:
            yield _file(name, path)


def _database(place: Settings) -> Path | None:
    try:
        return database_file(place)
    except ConfigInvalid:  # it is told with its setting
        return None


def _file(name: str, path: Path, problem: str = "") -> _File:
    try:
        there = path.exists()
    except OSError as error:  # a folder that may not be looked into
        return _File(name, str(path), there=False, problem=error.strerror or "cannot be read")
    return _File(name, str(path), there=there, problem=problem)
