"""Where each setting comes from: an option, the environment, the settings file, or nowhere."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from oncebox import config
from oncebox.cli.redaction import shown
from oncebox.config import Settings
from oncebox.errors import ConfigInvalid

DEFAULT = "default"

#: variables that are no settings of the service: the client's, and those of this program
_OTHERS = frozenset({
    "ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE", "ONCEBOX_CONFIG", "ONCEBOX_FAULTS", "ONCEBOX_URL",
})  # fmt: skip
_UNKNOWN = "no setting is called so; check its spelling"
_NOTHING: Any = object()

#: the parts of a setting's name
Path_ = tuple[str, ...]


class Setting(msgspec.Struct, frozen=True):
    """A setting as it stands; nothing in it is secret."""

    name: str
    value: str | int | float | bool
    origin: str
    #: why it cannot be used
    problem: str = ""


def settings_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the settings file, which need not be there."""
    environ = os.environ if environ is None else environ
    return Path(environ.get("ONCEBOX_CONFIG") or "oncebox.toml").absolute()


class Origins:
    """Knows what was set where; a value that cannot be used is no reason to say nothing."""

    def __init__(
        self, given: Mapping[str, tuple[str, str]], environ: Mapping[str, str] | None = None
    ) -> None:
        """Take what was typed, as option and value by setting."""
        self._given = given
        self._environ = os.environ if environ is None else environ
        self._in_environ = config.from_environ(self._environ)
        self.file = settings_file(self._environ)
        #: why the file cannot be read
        self.file_problem = ""
        try:
            self._in_file = config.from_file(self._environ)
        except ConfigInvalid as error:
            self._in_file = {}
            self.file_problem = str(error)

    def raw(self, name: str) -> tuple[Any, str]:
        """Return what a setting was set to, and where; None if it was nowhere."""
        if name in self._given:
            option, value = self._given[name]
            return value, option
        path = tuple(name.split("."))
        for tree, origin in (
            (self._in_environ, f"ONCEBOX_{'__'.join(path).upper()}"),
            (self._in_file, str(self.file)),
        ):
            value = _find(tree, path)
            if value is not _NOTHING:
                return value, origin
        return None, DEFAULT

    def settings(self) -> list[Setting]:
        """Return every setting."""
        return [self._setting(path, kind, default) for path, kind, default in leaves()]

    def strays(self) -> list[Setting]:
        """Return what was set and is no setting; never its value."""
        known = {path for path, _, _ in leaves()}
        sections = {path[:-1] for path in known} - {()}
        found = []
        for tree, origin in ((self._in_environ, ""), (self._in_file, str(self.file))):
            for path in _ends(tree, known):
                where = origin or f"ONCEBOX_{'__'.join(path).upper()}"
                problem = _of_section(path) if path in sections else _UNKNOWN
                found.append(Setting(".".join(path), "", where, problem))
        return [*found, *self._unknown_variables()]

    def _unknown_variables(self) -> Iterator[Setting]:
        fields = Settings.__struct_fields__
        for name in sorted(self._environ):
            first = name.removeprefix("ONCEBOX_").lower().partition("__")[0]
            if name.startswith("ONCEBOX_") and first not in fields and name not in _OTHERS:
                yield Setting(name, "", name, _UNKNOWN)

    def _setting(self, path: Path_, kind: Any, default: Any) -> Setting:
        name = ".".join(path)
        value, origin = self.raw(name)
        if origin == DEFAULT:
            return Setting(name, shown(name, default), origin)
        try:
            value = msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            return Setting(name, shown(name, value), origin, str(error))
        return Setting(name, shown(name, value), origin)


def leaves(section: type = Settings, above: Path_ = ()) -> Iterator[tuple[Path_, Any, Any]]:
    """Yield every setting with its type and its default."""
    hints = get_type_hints(section, include_extras=True)
    for field in msgspec.structs.fields(section):
        kind = hints[field.name]
        path = (*above, field.name)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from leaves(kind, path)
        else:
            yield path, kind, {} if field.default is msgspec.NODEFAULT else field.default


def _find(tree: Any, path: Path_) -> Any:
    for step in path:
        if not isinstance(tree, Mapping) or step not in tree:
            return _NOTHING
        tree = tree[step]
    return tree


def _ends(tree: Mapping[str, Any], known: set[Path_], above: Path_ = ()) -> Iterator[Path_]:
    """Yield where a tree ends without having come to a setting."""
    for name, value in tree.items():
        path = (*above, name)
        if path in known:
            continue
        if isinstance(value, Mapping):
            yield from _ends(value, known, path)
        else:
            yield path


def _of_section(path: Path_) -> str:
    return f"{'.'.join(path)} is a section; set what is in it"
