"""One call of a command: where the ledger lies, how to print, and the opened rooms."""

import functools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from oncebox.cli.printout import Printout
from oncebox.errors import NotFound

if TYPE_CHECKING:  # help and whoever starts others should not wait for these
    from oncebox.assembly import Rooms
    from oncebox.config import Settings

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call:
    """What the options shared by all commands say."""

    database: str | None
    data_dir: str | None
    out: Printout

    def settings(self) -> "Settings":
        """Return the settings; an option beats the environment.

        Raises: ConfigInvalid.
        """
        from oncebox import config  # noqa: PLC0415 - whoever only starts others needs none

        return config.load(None, **self.given())

    def given(self) -> dict[str, str]:
        """Return the settings that the options name."""
        given = {}
        if self.data_dir is not None:
            # A folder alone means the file in it, whatever database the environment names.
            given = {"data_dir": str(Path(self.data_dir).absolute()), "database_url": ""}
        if self.database is not None:
            given["database_url"] = self.database
        return given

    def run(self, work: Callable[["Rooms"], Awaitable[R]], *, create: bool = False) -> R:
        """Open the rooms, do the work, close them.

        Raises: NotFound, when there is no database and ``create`` does not ask for one.
        """
        logging.getLogger("oncebox").addHandler(logging.NullHandler())  # the answer tells it all
        settings = self.settings()
        if not create:
            _refuse_missing(settings)
        from asyncio import run  # noqa: PLC0415 - as above

        return run(_in_rooms(settings, work))


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


def database_file(settings: "Settings") -> Path | None:
    """Return the SQLite file that the settings name, if it is one."""
    if not settings.database.startswith("sqlite:"):
        return None
    from oncebox.store.opening import sqlite_path  # noqa: PLC0415 - as above

    return sqlite_path(settings.database)


def _refuse_missing(settings: "Settings") -> None:
    """Keep a mistyped folder from becoming a new, empty ledger."""
    path = database_file(settings)
    if path is not None and not path.exists():
        message = (
            f"there is no database at {path}; check --data-dir, or make one with: oncebox migrate"
        )
        raise NotFound(message)


async def _in_rooms(settings: "Settings", work: Callable[["Rooms"], Awaitable[R]]) -> R:
    from oncebox.assembly import open_rooms  # noqa: PLC0415 - as above

    rooms = await open_rooms(settings)
    try:
        return await work(rooms)
    finally:
        await rooms.close()
