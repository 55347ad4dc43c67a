"""Importing the `module:box` a user names, with errors that say what is wrong."""

import sys
import traceback
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from oncebox.errors import ConfigInvalid, OnceboxError

if TYPE_CHECKING:
    from oncebox.box import Oncebox


def parse_target(target: str) -> tuple[str, str]:
    """Return module and attribute, or raise a usage error."""
    module, colon, attribute = target.partition(":")
    named = module and attribute and all(
        part.isidentifier() for part in (*module.split("."), *attribute.split("."))
    )  # fmt: skip
    if not (colon and named):
        raise click.UsageError(
            f"{target!r} does not name a box; write module:attribute, such as app:box"
        )
    return module, attribute


def load_box(target: str, *, policies_suffice: bool = False) -> "Oncebox":
    """Import a box with handlers, or with policies; the current folder is searched first."""
    from oncebox.box import Oncebox  # noqa: PLC0415 - not needed to check a name

    module, attribute = parse_target(target)
    found = _get_attribute(_import_module(module), attribute)
    if not isinstance(found, Oncebox):
        raise ConfigInvalid(f"{target} is a {type(found).__name__}, not an Oncebox")
    suffices = found.handlers.sources or (policies_suffice and found.handlers.policies)
    if not suffices:
        raise ConfigInvalid(f"{target} has no handlers; register one with @box.on(source)")
    return found


def _import_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except OnceboxError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _import_failed(name, error) from error
        raise ConfigInvalid(f"there is no module {error.name!r} in {here} or installed") from error
    except Exception as error:
        raise _import_failed(name, error) from error


def _import_failed(name: str, error: Exception) -> ConfigInvalid:
    """Return an error with the line at which the user's module failed."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{frame.filename}:{frame.lineno}"
    return ConfigInvalid(f"importing {name} failed at {where}: {type(error).__name__}: {error}")


def _get_attribute(module: ModuleType, path: str) -> object:
    try:
        return reduce(getattr, path.split("."), module)
    except AttributeError as error:
        raise ConfigInvalid(f"the module {module.__name__} has no attribute {path!r}") from error
