"""Options every command shares (--database, --data-dir, --json, -q) and opening the database."""

import functools
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from oncebox.cli.output.printer import Printer
from oncebox.errors import NotFound

if TYPE_CHECKING:  # not loaded by help and by commands that only start processes
    from oncebox.cli.reader import Reader
    from oncebox.components import Components
    from oncebox.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The options shared by all commands."""

    database: str | None
    data_dir: str | None
    out: Printer

    def settings(self) -> "Settings":
        """Return the settings; an option overrides the environment."""
        from oncebox.settings_loading import load_settings  # noqa: PLC0415 - not needed to start processes

        return load_settings(None, **self.setting_overrides())

    def setting_overrides(self) -> dict[str, str]:
        """Return the settings given by options."""
        given = {}
        if self.data_dir is not None:
            # A folder alone means the database file in it, even if the environment names another.
            given = {"data_dir": str(Path(self.data_dir).absolute()), "database_url": ""}
        if self.database is not None:
            given["database_url"] = self.database
        return given

    @contextmanager
    def reader(self) -> "Iterator[Reader]":
        """Open the database for reading only."""
        from oncebox.cli.reader import Reader  # noqa: PLC0415 - help needs none

        reader = Reader(self.settings())
        try:
            yield reader
        finally:
            reader.close()

    def run(self, work: Callable[["Components"], Awaitable[R]], *, create: bool = False) -> R:
        """Open the database for reading and writing, and run a function of the components.

        A SQLite database is migrated first.

        Raises: NotFound, if there is no database and ``create`` is not set.
        """
        # Errors are printed, not logged.
        logging.getLogger("oncebox").addHandler(logging.NullHandler())
        settings = self.settings()
        if not create:
            _check_database_exists(settings)
        from asyncio import run  # noqa: PLC0415 - as above

        return run(_with_components(settings, work))


def with_context(command: Callable[Concatenate[CommandContext, P], R]) -> Callable[..., R]:
    """Add the shared options to a command, which gets them as a ``CommandContext``."""

    @click.option("--database", metavar="URL", help="Database URL (ONCEBOX_DATABASE_URL).")
    @click.option("--data-dir", metavar="DIR", help="Data folder (ONCEBOX_DATA_DIR).")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
    @click.option("--quiet", "-q", is_flag=True, help="Print only ids, or nothing.")
    @functools.wraps(command)
    def called(
        *args: Any,
        database: str | None,
        data_dir: str | None,
        as_json: bool,
        quiet: bool,
        **kwargs: Any,
    ) -> R:
        above = click.get_current_context().find_root().params
        call = CommandContext(
            database=database or above.get("database"),
            data_dir=data_dir or above.get("data_dir"),
            out=Printer(as_json=as_json or bool(above.get("as_json")), quiet=quiet),
        )
        return command(call, *args, **kwargs)

    return called


def examples(*commands: str) -> str:
    """Return the examples at the end of a help text."""
    return "\n".join(("\b", "Examples:", *(f"  {command}" for command in commands)))


def database_file(settings: "Settings") -> Path | None:
    """Return the SQLite file of the settings; None for PostgreSQL."""
    if not settings.database.startswith("sqlite:"):
        return None
    from oncebox.db.startup import sqlite_path  # noqa: PLC0415 - as above

    return sqlite_path(settings.database)


def _check_database_exists(settings: "Settings") -> None:
    """Prevent a mistyped folder from becoming a new, empty database."""
    path = database_file(settings)
    if path is not None and not path.exists():
        raise NotFound(f"there is no database at {path}; check --data-dir, or run: oncebox migrate")


async def _with_components(settings: "Settings", work: Callable[["Components"], Awaitable[R]]) -> R:
    from oncebox.ledger.admin.sources import COMMAND_ABOUT_SERVICE  # noqa: PLC0415 - as above
    from oncebox.wiring import open_components  # noqa: PLC0415 - as above

    components = await open_components(settings)
    components.process = COMMAND_ABOUT_SERVICE
    try:
        return await work(components)
    finally:
        await components.close()
