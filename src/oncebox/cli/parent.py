"""The parent of a supervised command: starts children of the same command and keeps them."""

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from oncebox.cli import failures
from oncebox.cli.call import Call
from oncebox.telemetry import Telemetry, log_to_stderr
from oncebox.worker.supervise import Supervisor


def supervise(call: Call, command: Sequence[str], *, processes: int = 1) -> int:
    """Run a command in children until they are told to stop; return the exit code."""
    log_to_stderr(as_json=not sys.stderr.isatty())
    options = ["--program", _program(), *(["--json"] if call.out.as_json else [])]

    def of_child(number: int, starts: int) -> list[str]:
        """Return the command line of a child; only the first, when it first starts, greets."""
        quietly = ["--quiet"] if call.out.quiet or number or starts else []
        child = ["--child", str(number), *options, *quietly]
        return [sys.executable, "-m", "oncebox", *command, *child]

    async def run() -> bool:
        supervisor = Supervisor(
            of_child, processes=processes, environ=_environ(call), log=Telemetry().log
        )
        return await supervisor.run()

    return failures.OK if asyncio.run(run()) else failures.ERROR


def _environ(call: Call) -> dict[str, str]:
    """Return the environment of the children: a box made at import reads its settings there."""
    settings = call.settings()
    given = {}
    if call.database is not None or call.data_dir is not None:
        given["ONCEBOX_DATABASE_URL"] = settings.database_url
    if call.data_dir is not None:
        given["ONCEBOX_DATA_DIR"] = settings.data_dir
    return {**os.environ, **given}


def _program() -> str:
    """Return how this program was called, to be called so again."""
    typed = sys.argv[0]
    if Path(typed).name == "__main__.py":
        return "python -m oncebox"
    return "oncebox" if shutil.which("oncebox") == typed else typed
