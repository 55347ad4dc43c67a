"""``oncebox doctor``: look for what is wrong, and say what helps."""

import asyncio

import click

from oncebox.cli import failures
from oncebox.cli.call import Call, with_call
from oncebox.cli.checks import examine
from oncebox.cli.findings import Check, Status
from oncebox.config import Settings


@click.command("doctor")
@with_call
def doctor(call: Call) -> int:
    """Look at the database, its durability, the master key and the work that waits.

    Changes nothing. The exit code is 1 if a check fails; a warning is no failure.
    """
    checks = asyncio.run(_all(call.settings()))
    if call.out.as_json:
        for check in checks:
            call.out.record(check)
    else:
        shown = [each for each in checks if not (call.out.quiet and each.status is Status.OK)]
        call.out.outline((each.check, each.status, each.message, each.remedy) for each in shown)
    failed = any(each.status is Status.FAIL for each in checks)
    return failures.ERROR if failed else failures.OK


async def _all(settings: Settings) -> list[Check]:
    checks = []
    try:
        async for check in examine(settings):
            checks.append(check)  # noqa: PERF401 - what was found before the trouble is told
    except PermissionError as error:
        message = f"{error.filename}: {error.strerror}"
        checks.append(Check("access", Status.FAIL, message, failures.AS_THE_SERVICE))
    return checks
