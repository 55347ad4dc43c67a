"""Errors on standard error, as a line or JSON object, and their exit codes."""

import click

from oncebox.errors import NotFound, OnceboxError, StateConflict

OK, ERROR, USAGE, NOT_FOUND, CONFLICT = range(5)
#: the remedy for missing permissions
RUN_AS_SERVICE_USER = "run this as the user of the service"
#: the exit code shells use for a program ended by ^C
INTERRUPTED = 130

_CODES: dict[type[OnceboxError], int] = {NotFound: NOT_FOUND, StateConflict: CONFLICT}


def exit_code(error: type[OnceboxError]) -> int:
    """Return the exit code for an error."""
    return next((code for kind, code in _CODES.items() if issubclass(error, kind)), ERROR)


def print_error(error: OnceboxError, *, as_json: bool) -> int:
    """Print an error; return its exit code."""
    _print_error_line(error.code, str(error), retry_safe=error.retry_safe, as_json=as_json)
    return exit_code(type(error))


def print_permission_error(error: PermissionError, *, as_json: bool) -> int:
    """Print that a file is not accessible; return the exit code."""
    message = f"{error.filename or 'a file'}: {error.strerror}; {RUN_AS_SERVICE_USER}"
    _print_error_line("database_read_only", message, retry_safe=False, as_json=as_json)
    return ERROR


def print_usage_error(error: click.ClickException, *, as_json: bool) -> int:
    """Print a usage error; return its exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()  # it is the help text itself
        return error.exit_code
    _print_error_line("usage", error.format_message(), retry_safe=False, as_json=as_json)
    if isinstance(error, click.UsageError) and error.ctx is not None and not as_json:
        click.echo(f"try: {error.ctx.command_path} --help", err=True)
    return error.exit_code


def _print_error_line(code: str, message: str, *, retry_safe: bool, as_json: bool) -> None:
    from oncebox.cli.output.printer import escape_lines, to_json  # noqa: PLC0415 - help needs none

    fact = {"code": code, "message": message, "retry_safe": retry_safe}
    if as_json:
        click.echo(to_json({"error": fact}), err=True)
        return
    # The other lines are indented, so that none of them looks like an error of its own.
    lines = "\n  ".join(escape_lines(message))
    click.echo(f"error: {code}: {lines}", err=True)
