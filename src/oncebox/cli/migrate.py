"""``oncebox migrate``: bring the database to this version."""

import asyncio

import click

from oncebox.cli.call import Call, with_call
from oncebox.config import Settings
from oncebox.store import migrate as migrations
from oncebox.store import opening


@click.command("migrate")
@with_call
def migrate(call: Call) -> None:
    """Bring the database to this version, and print what was applied.

    Only ever forward, each step in a transaction of its own; any number of hosts may call it
    at the same time. A SQLite database also does this by itself.
    """
    applied = asyncio.run(_migrate(call.settings()))
    if call.out.as_json:
        call.out.record({"applied": applied})
    elif not call.out.quiet:
        for name in applied or ["nothing to do"]:
            call.out.line(f"applied {name}" if applied else name)


async def _migrate(settings: Settings) -> list[str]:
    database = opening.connect(settings.database, connections=1)
    try:
        return await migrations.migrate(database)
    finally:
        await database.close()
