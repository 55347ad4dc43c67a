"""`oncebox config show`: every setting, its value and origin; secrets are hidden."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from oncebox.cli import files
from oncebox.cli.context import CommandContext, database_file, examples, with_context
from oncebox.cli.files import settings_file
from oncebox.cli.output import failures
from oncebox.cli.output.redaction import HIDDEN, redacted, redacted_url
from oncebox.core import credentials
from oncebox.errors import ConfigInvalid
from oncebox.settings import SendSettings, Settings
from oncebox.settings_loading import (
    all_settings,
    name_problems,
    setting_problem,
    settings_from_environ,
    settings_from_file,
    variable_name,
)

DEFAULT = "default"


class Setting(msgspec.Struct, frozen=True):
    """A setting with its effective value, which is hidden if secret."""

    name: str
    value: str | int | float | bool
    origin: str
    #: why it cannot be used
    problem: str = ""


class SettingOrigins:
    """Settings by origin; invalid values are kept, with the problem."""

    def __init__(self, given: Mapping[str, tuple[str, str]]) -> None:
        """Take the command-line options, as option and value by setting."""
        self._options = given
        self._in_environ = settings_from_environ(os.environ)
        self.file = settings_file()
        #: why the file cannot be read
        self.file_problem = ""
        try:
            self._in_file = settings_from_file(os.environ)
        except ConfigInvalid as error:
            self._in_file = {}
            self.file_problem = str(error)

    def raw(self, name: str) -> tuple[Any, str]:
        """Return the raw value of a setting and its origin; None if it is not set."""
        if name in self._options:
            option, value = self._options[name]
            return value, option
        path = tuple(name.split("."))
        if (value := _find(self._in_environ, path)) is not None:
            return value, variable_name(name)
        if (value := _find(self._in_file, path)) is not None:
            return value, str(self.file)
        return None, DEFAULT

    def settings(self) -> list[Setting]:
        """Return every setting."""
        return [self._setting(path, kind, default) for path, kind, default in all_settings()]

    def unknown_settings(self) -> list[Setting]:
        """Return names that are set but are no settings, without their values."""
        problems = name_problems(self._in_file, os.environ)
        unknown = [
            Setting(_name_of_variable(name), "", name, problem)
            if name in os.environ
            else Setting(name, "", str(self.file), problem)
            for name, problem in problems.items()
        ]
        return [*unknown, *self._sections_with_values()]

    def _sections_with_values(self) -> Iterator[Setting]:
        sections = {path[0] for path, _, _ in all_settings() if path[1:]}
        for tree, origin in ((self._in_environ, ""), (self._in_file, str(self.file))):
            for name in sorted(sections & tree.keys()):
                if not isinstance(tree[name], Mapping):
                    problem = f"{name} is a section; set the settings in it"
                    yield Setting(name, "", origin or variable_name(name), problem)

    def _setting(self, path: tuple[str, ...], kind: Any, default: Any) -> Setting:
        name = ".".join(path)
        value, origin = self.raw(name)
        if origin == DEFAULT:
            return Setting(name, redacted(name, default), origin)
        problem = setting_problem(path, value, is_text=_find(self._in_environ, path) is not None)
        if not problem:
            value = msgspec.convert(value, kind, strict=False)
        return Setting(name, redacted(name, value), origin, problem)


def _find(tree: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return tree


def _name_of_variable(variable: str) -> str:
    """Return ``http.prot`` for ONCEBOX_HTTP__PROT, and a name without a section as it is."""
    section, _, rest = variable.removeprefix("ONCEBOX_").lower().partition("__")
    return f"{section}.{rest.replace('__', '.')}" if rest else variable


class _File(msgspec.Struct, frozen=True):
    """A file or folder that Oncebox uses."""

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

    Secrets, and passwords in URLs, are hidden. An invalid value or name is shown with the reason
    and is no failure. -q shows only settings that are set or invalid.
    """
    origins = SettingOrigins(_option_values(call))
    place = _location_settings(origins)
    unknown = origins.unknown_settings()
    settings = [
        *_effective_settings(origins.settings(), place),
        *_client_settings(place),
        *unknown,
    ]
    files = list(_installation_files(origins, place))
    if call.out.as_json:
        call.out.record({"settings": settings, "files": files})
        return
    wanted = [
        each for each in settings if not call.out.quiet or each.problem or each.origin != DEFAULT
    ]
    call.out.table(("setting", "value", "origin", "trouble"), map(msgspec.structs.astuple, wanted))
    for each in unknown:
        failures.print_error(ConfigInvalid(each.problem), as_json=False)
    for file in files:
        state = file.problem or ("found" if file.there else "not there")
        call.out.line(f"{file.name}: {file.path}", state)


def _option_values(call: CommandContext) -> dict[str, tuple[str, str]]:
    options = {"data_dir": "--data-dir", "database_url": "--database"}
    if call.database is None:  # a folder alone means the database in it
        options["database_url"] = "--data-dir"
    return {name: (options[name], value) for name, value in call.setting_overrides().items()}


def _location_settings(origins: SettingOrigins) -> Settings:
    """Return the settings that locate files, as far as they are valid."""

    def text(name: str) -> str:
        value, _ = origins.raw(name)
        return value if isinstance(value, str) else ""

    def path(name: str) -> str:
        return "" if "://" in text(name) else text(name)  # a URL in the wrong setting

    return Settings(
        data_dir=path("data_dir"),
        database_url=text("database_url"),
        master_key=text("master_key"),
        master_key_file=path("master_key_file"),
        sends=SendSettings(templates=path("sends.templates")),
    )


def _effective_settings(settings: list[Setting], place: Settings) -> Iterator[Setting]:
    """Fill in the effective value of empty settings."""
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
    """Return the service and the key that clients would use."""
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
        yield Setting("client.url", "http://127.0.0.1:8808", DEFAULT, problem)
    for name in ("ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE"):
        if os.environ.get(name):
            yield Setting("client.api_key", HIDDEN, name)
            return
    if filed is not None:
        yield Setting("client.api_key", HIDDEN, file)
    else:
        yield Setting("client.api_key", "", DEFAULT, problem)


def _installation_files(origins: SettingOrigins, place: Settings) -> Iterator[_File]:
    """Return the files Oncebox uses, and whether they exist."""
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
    except ConfigInvalid:  # reported with its setting
        return None


def _file(name: str, path: Path, problem: str = "") -> _File:
    try:
        there = path.exists()
    except OSError as error:  # a folder without permission
        return _File(name, str(path), there=False, problem=error.strerror or "cannot be read")
    return _File(name, str(path), there=there, problem=problem)
