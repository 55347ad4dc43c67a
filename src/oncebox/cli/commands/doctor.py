"""`oncebox doctor`: run all checks and print the findings."""

import asyncio

import click

from oncebox.cli.checks import Check, CheckStatus, fail
from oncebox.cli.checks.database import run_all
from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.output import failures
from oncebox.settings import Settings


@click.command("doctor", epilog=examples("oncebox doctor", "oncebox doctor --strict --quiet"))
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
@with_context
def doctor(call: CommandContext, *, strict: bool) -> int:
    """Check the machine, the database, the master key and overdue work.

    Nothing is changed. The exit code is 1 if a check fails; warnings count with --strict.
    """
    checks = asyncio.run(_run_checks(call.settings()))
    if call.out.as_json:
        for check in checks:
            call.out.record(check)
    else:
        shown = [each for each in checks if not (call.out.quiet and each.status is CheckStatus.OK)]
        call.out.outline((each.check, each.status, each.message, each.remedy) for each in shown)
    bad = {CheckStatus.FAIL, CheckStatus.WARN} if strict else {CheckStatus.FAIL}
    return failures.ERROR if any(each.status in bad for each in checks) else failures.OK


async def _run_checks(settings: Settings) -> list[Check]:
    checks = []
    try:
        async for check in run_all(settings):
            checks.append(check)  # noqa: PERF401 - findings before the error are shown
    except PermissionError as error:
        message = f"{error.filename}: {error.strerror}"
        checks.append(fail("access", message, failures.RUN_AS_SERVICE_USER))
    return checks
