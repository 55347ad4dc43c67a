"""Loading of settings from arguments, environment and TOML file; problems with names and values.

Order: what the program passes, then ``ONCEBOX_*`` in the environment
(``ONCEBOX_WORKER__LEASE`` for a nested one), then ``oncebox.toml``, then the default.
"""

import difflib
import functools
import os
import re
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.model.setting_rules import (
    MAX_NUMBER,
    SETTING_RULES,
    TYPE_DESCRIPTIONS,
)  # fmt: skip
from oncebox.settings import Settings

_PREFIX = "ONCEBOX_"

#: renamed settings: the old and the new name
RENAMED_SETTINGS = {"sends.hand_over_within": "sends.transport_timeout"}
#: variables that are no settings: of the client, of tests and of tools
OTHER_VARIABLES = frozenset({
    "ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE", "ONCEBOX_CONFIG", "ONCEBOX_FAULTS", "ONCEBOX_URL",
    "ONCEBOX_WALK",
})  # fmt: skip
_TEST_VARIABLES = "ONCEBOX_TEST_"
#: what Kubernetes sets in every pod for a service called ``oncebox``
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)(_\w+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_\w+)?$")
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://")
#: a variable that looks like a setting, if it holds a number as no service link does
_HTTP_PORT_VARIABLE = "ONCEBOX_PORT"
#: how similar two names must be for one to be suggested for the other
_ALIKE = 0.75

#: a number that may be shown
_NUMBER = re.compile(r"-?[0-9.]{1,20}")
#: fields of a source's table that are no fields of a source
_READ_LATER = frozenset({"secrets", "public_id"})
_ERROR_PATH = re.compile(r"`\$\.([a-z_.]+)(?:\[\.\.\.\])*`$")


def load_settings(environ: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """Load the settings from arguments, environment and file.

    Raises: ConfigInvalid, naming the setting.
    """
    environ = os.environ if environ is None else environ
    in_file, in_environ = settings_from_file(environ), settings_from_environ(environ)
    for problem in name_problems(in_file, environ).values():
        raise ConfigInvalid(problem)
    merged = _merge(in_file, in_environ)
    merged = _merge(merged, {name: value for name, value in given.items() if value is not None})
    for path in _kinds():
        if _has_path(merged, path):
            is_text = _has_path(in_environ, path)
            problem = setting_problem(path, _find_path(merged, path), is_text=is_text)
            if problem:
                raise ConfigInvalid(f"{_where(path, in_file, in_environ)} {problem}")
    try:
        return msgspec.convert(merged, Settings, strict=False)
    except msgspec.ValidationError as error:
        path = _error_path(error)
        if not path:
            raise ConfigInvalid(f"a setting cannot be used: {error}") from error
        where = _where(path, in_file, in_environ)
        raise ConfigInvalid(f"{where} {expectation(path)}") from error


def _where(path: tuple[str, ...], in_file: Any, in_environ: Any) -> str:
    """Return the name of a setting where it is set."""
    name = ".".join(path)
    if _has_path(in_environ, path):
        return variable_name(name)
    return f"{name} in the settings file" if _has_path(in_file, path) else name


def setting_problem(path: tuple[str, ...], value: Any, *, is_text: bool) -> str:
    """Say what is wrong with the value of a setting, and what it must be; empty if nothing is.

    The environment has texts only, in which numbers are read. A value is quoted only if it and
    the setting are numbers: it may be a secret.
    """
    kind = _kinds()[path]
    rule = SETTING_RULES.get(".".join(path))
    try:
        found = msgspec.convert(value, kind, strict=not is_text)
    except msgspec.ValidationError:
        return f"{expectation(path)}, and is {_described_value(kind, value)}"
    if rule is not None and found != "" and not rule.holds(found):
        return f"{expectation(path)}, and is {_described_value(kind, found)}"
    find_problem = _TABLE_PROBLEMS.get(path)
    return find_problem(found) if find_problem else ""


def _described_value(kind: Any, value: Any) -> str:
    """Return the type of a value; its number, if the setting is one."""
    is_number = getattr(kind, "__origin__", None) in {int, float}
    if is_number and not isinstance(value, bool) and _NUMBER.fullmatch(str(value)):
        return str(value)
    names = {str: "text", bool: "true or false", int: "a whole number", float: "a number",
             list: "a list", dict: "a table"}  # fmt: skip
    described = names.get(type(value), "something else")
    return "another text" if described == "text" and not is_number else described


def _sources_problem(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the first problem of a source's table; its secrets are read later."""
    from oncebox.model.webhooks.source import source_from_table  # noqa: PLC0415 - few have sources

    for name, table in tables.items():
        fields = {field: value for field, value in table.items() if field not in _READ_LATER}
        secrets = table.get("secrets", [])
        texts = secrets if isinstance(secrets, list) else [secrets]
        if not all(isinstance(each, str) for each in texts):
            return f"has a source that cannot be used: secrets of {name!r} must be a list of texts"
        try:
            source_from_table(fields, tenant="default", name=name, public_id="x")
        except ConfigInvalid as error:
            return f"has a source that cannot be used: {error}"
    return ""


def _mailboxes_problem(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the first problem of a mailbox's table; its secrets are read later."""
    from oncebox.model.mailboxes import mailbox_fields  # noqa: PLC0415 - few have mailboxes

    for name, table in tables.items():
        try:
            mailbox_fields.fields_from_table(name, table, mailbox_fields.LocalMailboxFields)
        except ConfigInvalid as error:
            return f"has a mailbox that cannot be used: {error}"
    return ""


#: settings that are tables of tables, and what finds their problems
_TABLE_PROBLEMS: dict[tuple[str, ...], Callable[[Mapping[str, Mapping[str, Any]]], str]] = {
    ("sources",): _sources_problem,
    ("mailboxes",): _mailboxes_problem,
}


def expectation(path: tuple[str, ...]) -> str:
    """Say what a setting must be, without its value, which may be a secret."""
    kind = _kinds().get(path)
    if kind is None:
        return "is a section; set the settings in it"
    if path in _TABLE_PROBLEMS:
        return f"must be tables [{path[0]}.NAME] in the settings file"
    if get_origin(kind) is Literal:
        return f"must be {' or '.join(get_args(kind))}"
    rule = SETTING_RULES.get(".".join(path))
    described = rule.expected if rule else TYPE_DESCRIPTIONS.get(kind)
    return f"must be {described or _described_number(kind)}"


def _described_number(kind: Any) -> str:
    base, meta = kind.__origin__, kind.__metadata__[0]
    number = "a whole number" if base is int else "a number"
    if meta.gt is not None:
        return f"{number} above {meta.gt} and up to {meta.le}"
    is_bounded = meta.le not in {None, MAX_NUMBER}
    return (
        f"{number} from {meta.ge} to {meta.le}" if is_bounded else f"{number}, at least {meta.ge}"
    )


def _error_path(error: msgspec.ValidationError) -> tuple[str, ...]:
    """Return the path of the setting in an error: ``… - at `$.http.port```."""
    found = _ERROR_PATH.search(str(error))
    return tuple(found[1].split(".")) if found else ()


def _find_path(tree: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def _has_path(tree: Any, path: tuple[str, ...]) -> bool:
    for step in path:
        if not isinstance(tree, Mapping) or step not in tree:
            return False
        tree = tree[step]
    return True


def name_problems(in_file: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return names that are set but are no settings, each with the remedy.

    Variables come by their names, settings of the file as ``section.name``. A variable that
    resembles no setting belongs to another program, unless it has ``__`` as only settings do.
    """
    names, sections = _names_and_sections()
    problems = {}
    for path in _leaf_paths(in_file):
        name = ".".join(path)
        if not _is_known(path, names, sections):
            problems[name] = f"{name} in the settings file {_remedy(name, names, str)}"
    for variable, value in environ.items():
        path = tuple(variable.removeprefix(_PREFIX).lower().split("__"))
        if not variable.startswith(_PREFIX) or _is_known(path, names, sections):
            continue
        if _is_other_variable(variable, value):
            continue
        name = ".".join(path)
        if variable == _HTTP_PORT_VARIABLE and value.strip().isdecimal():
            name = "http_port"  # resembles http.port
        if len(path) > 1 or _closest(name, names):
            problems[variable] = f"{variable} {_remedy(name, names, variable_name)}"
    return problems


def variable_name(name: str) -> str:
    """Return the environment variable of a setting such as ``worker.lease``."""
    return _PREFIX + name.replace(".", "__").upper()


def _is_other_variable(variable: str, value: str) -> bool:
    return bool(
        variable in OTHER_VARIABLES
        or variable.startswith(_TEST_VARIABLES)
        or _SERVICE_LINK.search(variable)
        or _SERVICE_LINK_VALUE.match(value)
    )


def _remedy(name: str, names: Iterable[str], shown: Callable[[str], str]) -> str:
    if name in RENAMED_SETTINGS:
        return f"was renamed; use {shown(RENAMED_SETTINGS[name])}"
    closest = _closest(name, names)
    guess = f"did you mean {shown(closest)}? " if closest else ""
    return f"is not a setting; {guess}list all settings with: oncebox config show"


def _closest(name: str, names: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=_ALIKE)), None)


def _is_known(path: tuple[str, ...], names: Container[str], sections: Container[str]) -> bool:
    """Say whether a path names a setting; a value in place of a section is a type error later."""
    name = ".".join(path)
    return (
        name in names
        or name in sections
        or any(".".join(path[:length]) in names for length in range(1, len(path)))
    )


@functools.cache
def _kinds() -> dict[tuple[str, ...], Any]:
    return {path: kind for path, kind, _ in all_settings()}


@functools.cache
def _names_and_sections() -> tuple[list[str], frozenset[str]]:
    paths = [path for path, _, _ in all_settings()]
    return [".".join(path) for path in paths], frozenset(path[0] for path in paths if path[1:])


def all_settings(
    section: type = Settings, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the path, type and default of every setting."""
    for field in msgspec.structs.fields(section):
        path = (*above, field.name)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from all_settings(field.type, path)
        else:
            yield path, field.type, {} if field.default is msgspec.NODEFAULT else field.default


def _leaf_paths(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value and (*above, name) not in _TABLE_PROBLEMS:
            yield from _leaf_paths(value, (*above, name))
        else:
            yield (*above, name)


def settings_from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in the environment, as a tree of texts."""
    known = set(Settings.__struct_fields__)
    found: dict[str, Any] = {}
    for variable, value in environ.items():
        path = variable.removeprefix(_PREFIX).lower().split("__")
        if variable.startswith(_PREFIX) and path[0] in known:
            _set_path(found, path, value)
    return found


def settings_from_file(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in the settings file, none without a file; or raise ConfigInvalid."""
    named = environ.get("ONCEBOX_CONFIG")
    path = Path(named or "oncebox.toml")
    if not named and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"the settings file {path} cannot be read: {error}") from error


def _set_path(tree: dict[str, Any], path: list[str], value: str) -> None:
    for step in path[:-1]:
        inner = tree.setdefault(step, {})
        if not isinstance(inner, dict):
            return  # the shorter name is an error that is reported later
        tree = inner
    tree[path[-1]] = value


def _merge(under: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for name, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merge(merged[name], value) if both else value
    return merged
