"""The parent of a supervised command: starts children of the same command and keeps them."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from oncebox.cli import failures
from oncebox.cli.call import Call
from oncebox.log import Log, log_to_stderr
from oncebox.worker.forked import fork
from oncebox.worker.supervise import Supervisor


def supervise(
    call: Call,
    command: Sequence[str],
    *,
    processes: int = 1,
    first: Callable[[], int] | None = None,
) -> int:
    """Run a command in children until they are told to stop; return the exit code.

    ``first`` is what the first of them does: it is forked off before anything else is loaded, so
    that it need not begin from nothing. Whoever follows it does.
    """
    environ = _environ(call)
    forked = None
    if first is not None:
        try:
            forked = fork()
        except OSError:
            pass  # no room for a process now: the supervisor starts it, again and again
        else:
            if forked is None:
                os.environ.update(environ)
                return first()
    log_to_stderr(as_json=not sys.stderr.isatty())
    options = ["--program", program(), *(["--json"] if call.out.as_json else [])]

    def of_child(number: int, starts: int) -> list[str]:
        """Return the command line of a child; only the first, when it first starts, greets."""
        quietly = ["--quiet"] if call.out.quiet or number or starts else []
        child = ["--child", str(number), *options, *quietly]
        return [sys.executable, "-m", "oncebox", *command, *child]

    supervisor = Supervisor(of_child, processes=processes, environ=environ, log=Log(), first=forked)
    supervisor.obey()
    return failures.OK if supervisor.run() else failures.ERROR


def _environ(call: Call) -> dict[str, str]:
    """Return the environment of the children: a box made at import reads its settings there."""
    return {
        **os.environ,
        **{f"ONCEBOX_{name.upper()}": text for name, text in call.given().items()},
    }


def program() -> str:
    """Return how this program was called, to be called so again."""
    typed = sys.argv[0]
    if Path(typed).name == "__main__.py":
        return "python -m oncebox"
    return "oncebox" if shutil.which("oncebox") == typed else typed
