"""One call of a command: where the ledger lies, how to print, and the opened rooms."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from oncebox import config
from oncebox.assembly import Rooms, open_rooms
from oncebox.cli.printout import Printout
from oncebox.config import Settings
from oncebox.errors import NotFound
from oncebox.store import opening

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call:
    """What the options shared by all commands say."""

    database: str | None
    data_dir: str | None
    out: Printout

    def settings(self) -> Settings:
        """Return the settings; an option beats the environment.

        Raises: ConfigInvalid.
        """
        folder = None if self.data_dir is None else str(Path(self.data_dir).absolute())
        # A folder alone means the file in it, whatever database the environment names.
        database = "" if folder and self.database is None else self.database
        return config.load(database_url=database, data_dir=folder)

    def run(self, work: Callable[[Rooms], Awaitable[R]], *, create: bool = False) -> R:
        """Open the rooms, do the work, close them.

        Raises: NotFound, when there is no database and ``create`` does not ask for one.
        """
        logging.getLogger("oncebox").addHandler(logging.NullHandler())  # the answer tells it all
        settings = self.settings()
        if not create:
            _refuse_missing(settings)
        return asyncio.run(_in_rooms(settings, work))


def with_call(command: Callable[Concatenate[Call, P], R]) -> Callable[..., R]:
    """Give a command the shared options, gathered in a ``Call``."""

    @click.option("--database", metavar="URL", help="The database (ONCEBOX_DATABASE_URL).")
    @click.option("--data-dir", metavar="DIR", help="The data folder (ONCEBOX_DATA_DIR).")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
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
        call = Call(
            database=database or above.get("database"),
            data_dir=data_dir or above.get("data_dir"),
            out=Printout(as_json=as_json or bool(above.get("as_json")), quiet=quiet),
        )
        return command(call, *args, **kwargs)

    return called


def examples(*commands: str) -> str:
    """Return the end of a help text: commands to copy, one a line."""
    return "\n".join(("\b", "Examples:", *(f"  {command}" for command in commands)))


def database_file(settings: Settings) -> Path | None:
    """Return the SQLite file that the settings name, if it is one."""
    if not settings.database.startswith("sqlite:"):
        return None
    return opening.sqlite_path(settings.database)


def _refuse_missing(settings: Settings) -> None:
    """Keep a mistyped folder from becoming a new, empty ledger."""
    path = database_file(settings)
    if path is not None and not path.exists():
        message = (
            f"there is no database at {path}; check --data-dir, or make one with: oncebox migrate"
        )
        raise NotFound(message)


async def _in_rooms(settings: Settings, work: Callable[[Rooms], Awaitable[R]]) -> R:
    rooms = await open_rooms(settings)
    try:
        return await work(rooms)
    finally:
        await rooms.close()
