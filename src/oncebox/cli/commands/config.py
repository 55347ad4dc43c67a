"""`oncebox config show`: every setting, its value and origin; secrets are hidden."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import click
import msgspec

from oncebox.cli import files
from oncebox.cli.context import CommandContext, database_file, examples, with_context
from oncebox.cli.files import settings_file
from oncebox.cli.output.redaction import HIDDEN, redacted, redacted_url
from oncebox.core import credentials
from oncebox.errors import ConfigInvalid
from oncebox.settings import (
    SendSettings,
    Settings,
    name_problems,
    settings_from_environ,
    settings_from_file,
    variable_name,
)

DEFAULT = "default"

_MISSING: Any = object()

#: the parts of a setting's name
SettingPath = tuple[str, ...]


class Setting(msgspec.Struct, frozen=True):
    """A setting as it stands; nothing in it is secret."""

    name: str
    value: str | int | float | bool
    origin: str
    #: why it cannot be used
    problem: str = ""


class SettingOrigins:
    """Knows what was set where; a value that cannot be used is no reason to say nothing."""

    def __init__(
        self, given: Mapping[str, tuple[str, str]], environ: Mapping[str, str] | None = None
    ) -> None:
        """Take what was typed, as option and value by setting."""
        self._options = given
        self._environ = os.environ if environ is None else environ
        self._in_environ = settings_from_environ(self._environ)
        self.file = settings_file(self._environ)
        #: why the file cannot be read
        self.file_problem = ""
        try:
            self._in_file = settings_from_file(self._environ)
        except ConfigInvalid as error:
            self._in_file = {}
            self.file_problem = str(error)

    def raw(self, name: str) -> tuple[Any, str]:
        """Return what a setting was set to, and where; None if it was nowhere."""
        if name in self._options:
            option, value = self._options[name]
            return value, option
        path = tuple(name.split("."))
        for tree, origin in (
            (self._in_environ, variable_name(name)),
            (self._in_file, str(self.file)),
        ):
            value = _find(tree, path)
            if value is not _MISSING:
                return value, origin
        return None, DEFAULT

    def settings(self) -> list[Setting]:
        """Return every setting."""
        return [self._setting(path, kind, default) for path, kind, default in all_settings()]

    def unknown_settings(self) -> list[Setting]:
        """Return what was set and is no setting; never its value."""
        problems = name_problems(self._in_file, self._environ)
        found = [
            Setting(_name_of_variable(name), "", name, problem)
            if name in self._environ
            else Setting(name, "", str(self.file), problem)
            for name, problem in problems.items()
        ]
        return [*found, *self._sections_with_values()]

    def _sections_with_values(self) -> Iterator[Setting]:
        sections = {path[0] for path, _, _ in all_settings() if len(path) > 1}
        for tree, origin in ((self._in_environ, ""), (self._in_file, str(self.file))):
            for name in sorted(sections & tree.keys()):
                if not isinstance(tree[name], Mapping):
                    problem = f"{name} is a section; set what is in it"
                    yield Setting(name, "", origin or variable_name(name), problem)

    def _setting(self, path: SettingPath, kind: Any, default: Any) -> Setting:
        name = ".".join(path)
        value, origin = self.raw(name)
        if origin == DEFAULT:
            return Setting(name, redacted(name, default), origin)
        try:
            value = msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            return Setting(name, redacted(name, value), origin, str(error))
        return Setting(name, redacted(name, value), origin)


def all_settings(
    section: type = Settings, above: SettingPath = ()
) -> Iterator[tuple[SettingPath, Any, Any]]:
    """Yield every setting with its type and its default."""
    hints = get_type_hints(section, include_extras=True)
    for field in msgspec.structs.fields(section):
        kind = hints[field.name]
        path = (*above, field.name)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from all_settings(kind, path)
        else:
            yield path, kind, {} if field.default is msgspec.NODEFAULT else field.default


def _find(tree: Any, path: SettingPath) -> Any:
    for step in path:
        if not isinstance(tree, Mapping) or step not in tree:
            return _MISSING
        tree = tree[step]
    return tree


def _name_of_variable(variable: str) -> str:
    """Return ``http.prot`` for ONCEBOX_HTTP__PROT, and a name without a section as it is."""
    section, _, rest = variable.removeprefix("ONCEBOX_").lower().partition("__")
    return f"{section}.{rest.replace('__', '.')}" if rest else variable


_COLUMNS = ("setting", "value", "origin", "trouble")
_DEFAULT_SERVICE_URL = "http://127.0.0.1:8808"


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
@with_context
def show(call: CommandContext) -> None:
    """Show every setting with its value and origin, and the files that are read.

    Secrets, and passwords in URLs, are hidden. An invalid value is shown with the reason and is
    no failure. -q shows only settings that are set or invalid.
    """
    origins = SettingOrigins(_option_values(call))
    place = _location_settings(origins)
    settings = [
        *_effective_settings(origins.settings(), place),
        *_client_settings(place),
        *origins.unknown_settings(),
    ]
    files = list(_installation_files(origins, place))
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


def _option_values(call: CommandContext) -> dict[str, tuple[str, str]]:
    """Return what the options set; a folder alone means the database in it."""
    typed: dict[str, tuple[str, str]] = {}
    if call.data_dir is not None:
        typed["data_dir"] = ("--data-dir", str(Path(call.data_dir).absolute()))
        typed["database_url"] = ("--data-dir", "")
    if call.database is not None:
        typed["database_url"] = ("--database", call.database)
    return typed


def _location_settings(origins: SettingOrigins) -> Settings:
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


def _effective_settings(settings: list[Setting], place: Settings) -> Iterator[Setting]:
    """Say what an empty setting comes to."""
    meant = {
        "data_dir": str(place.folder),
        "database_url": place.database,
        "sends.templates": str(place.templates_folder),
    }
    for each in settings:
        if each.name in meant and not each.value:
            yield msgspec.structs.replace(each, value=meant[each.name])
        elif each.name == "master_key" and not each.value and place.master_key_file:
            origin = next(one.origin for one in settings if one.name == "master_key_file")
            yield msgspec.structs.replace(each, value=HIDDEN, origin=origin)
        else:
            yield each


def _client_settings(place: Settings) -> Iterator[Setting]:
    """Say which service the commands that need one would call, and with whose key."""
    file, problem = str(credentials.path(place.folder)), ""
    try:
        filed = credentials.read(place.folder)
    except ConfigInvalid as error:
        filed, problem = None, str(error)
    url = os.environ.get("ONCEBOX_URL", "")
    if url:
        yield Setting("client.url", redacted_url(url), "ONCEBOX_URL")
    elif filed is not None:
        yield Setting("client.url", redacted_url(filed.url), file)
    else:
        yield Setting("client.url", _DEFAULT_SERVICE_URL, DEFAULT, problem)
    for name in ("ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE"):
        if os.environ.get(name):
            yield Setting("client.api_key", HIDDEN, name)
            return
    if filed is not None:
        yield Setting("client.api_key", HIDDEN, file)
    else:
        yield Setting("client.api_key", "", DEFAULT, problem)


def _installation_files(origins: SettingOrigins, place: Settings) -> Iterator[_File]:
    """Say which files are looked for, and whether they are there."""
    yield _file("settings", origins.file, origins.file_problem)
    wanted = {
        "database": _database(place),
        "master key": files.master_key_path(place),
        "credentials": credentials.path(place.folder),
        "templates": place.templates_folder,
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
