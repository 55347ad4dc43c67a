"""The parent process of `serve` and `worker`: starts and supervises child processes."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from oncebox.cli.context import CommandContext
from oncebox.cli.output import failures
from oncebox.core.logging import Log, log_lazily, log_to_stderr
from oncebox.errors import OnceboxError
from oncebox.workers.process.supervisor import Supervisor, fork


def supervise(
    call: CommandContext,
    command: Sequence[str],
    *,
    processes: int = 1,
    first: Callable[[], int] | None = None,
) -> int:
    """Run a command in child processes until they are stopped; return the exit code.

    ``first`` is what the first child runs: it is forked before anything else is loaded, so that
    it need not start a new interpreter. Restarted children do.
    """
    environ = _child_environment(call)
    forked = None
    if first is not None:
        try:
            forked = fork()
        except OSError:
            pass  # no resources for a process now: the supervisor retries
        else:
            if forked is None:
                os.environ.update(environ)
                return first()
    log_lazily(lambda: _begin_log(call))  # a parent loads no settings unless it must
    options = ["--program", program_name(), *(["--json"] if call.out.as_json else [])]

    def child_command(number: int, starts: int) -> list[str]:
        """Return the command line of a child; only the first child's first start greets."""
        quietly = ["--quiet"] if call.out.quiet or number or starts else []
        child = ["--child", str(number), *options, *quietly]
        return [sys.executable, "-m", "oncebox", *command, *child]

    supervisor = Supervisor(
        child_command, processes=processes, environ=environ, log=Log(), first=forked
    )
    supervisor.handle_signals()
    return failures.OK if supervisor.run() else failures.ERROR


def _begin_log(call: CommandContext) -> None:
    """Log as the settings say; if they are invalid, the child reports it."""
    try:
        settings = call.settings().log
    except OnceboxError:
        log_to_stderr()
    else:
        log_to_stderr(settings.level, settings.format)


def _child_environment(call: CommandContext) -> dict[str, str]:
    """Return the environment of the children: a box made at import reads its settings there."""
    return {
        **os.environ,
        **{f"ONCEBOX_{name.upper()}": text for name, text in call.setting_overrides().items()},
    }


def program_name() -> str:
    """Return the command with which this program was started."""
    typed = sys.argv[0]
    if Path(typed).name == "__main__.py":
        return "python -m oncebox"
    return "oncebox" if shutil.which("oncebox") == typed else typed
