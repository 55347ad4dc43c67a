"""What can be typed about a source, as options that are named like the fields of its table."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from oncebox.cli.durations import seconds
from oncebox.ledger.office.secrets import is_reference

F = TypeVar("F", bound=Callable[..., Any])

_FILE = "file:"


def _pair(name: str) -> Callable[[click.Context, click.Parameter, Any], dict[str, Any] | None]:
    def pairs(
        _ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
    ) -> dict[str, Any] | None:
        found: dict[str, Any] = {}
        for text in value:
            left, equals, right = text.partition("=")
            if not (left and equals):
                message = f"write {name}"
                raise click.BadParameter(message, param=param)
            found[left] = _value(right) if param.name == "options" else right
        return found or None

    return pairs


def _value(text: str) -> Any:
    """Read a scheme's option: numbers, true, false and lists as JSON, all else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _choice(*words: str) -> dict[str, Any]:
    return {"type": click.Choice(words)}


def _many(metavar: str) -> dict[str, Any]:
    return {"multiple": True, "metavar": metavar, "callback": _pair(metavar)}


#: each field of the table, as it is typed
_OPTIONS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("--option", "options", _many("NAME=VALUE"), "For the scheme, such as header=X-Sig."),
    ("--public-url", "public_url", {"metavar": "URL"}, "The address the provider knows."),
    ("--late", "late", _choice("hold", "run"), "Genuine but after its time."),
    ("--replay", "replay", _choice("hold", "run", "drop"), "Known body, new unsigned id."),
    ("--redelivery", "redelivery", _choice("rearm", "count"), "Sent again after it failed."),
    ("--order-by", "order_by", {"metavar": "PATH"}, "One at a time per value, in order."),
    ("--sequence", "sequence", {"metavar": "PATH"}, "A number that rises."),
    ("--stale", "stale", _choice("skip", "run"), "A number below the last one."),
    ("--gap-wait", "gap_wait", {"type": seconds, "metavar": "TIME"}, "Wait for a missing one."),
    ("--after", "after", _many("TYPE=EARLIER"), "This type waits for the other."),
    ("--after-wait", "after_wait", {"type": seconds, "metavar": "TIME"}, "How long it waits."),
    ("--tries", "tries", {"type": int, "metavar": "N"}, "Tries of one delivery."),
    ("--budget", "budget", {"type": seconds, "metavar": "TIME"}, "Time for all its tries."),
    ("--first-wait", "first_wait", {"type": seconds, "metavar": "TIME"}, "Before a 2nd try."),
    ("--longest-wait", "longest_wait", {"type": seconds, "metavar": "TIME"}, "Before any try."),
    ("--rate", "rate", {"type": int, "metavar": "N"}, "Deliveries begun per second at most."),
    ("--concurrency", "concurrency", {"type": int, "metavar": "N"}, "Worked on at a time."),
    ("--retention", "retention", {"type": int, "metavar": "DAYS"}, "How long bodies are kept."),
    ("--mode", "mode", _choice("handler", "pull"), "Who works on it."),
    ("--cidr", "cidrs", {"multiple": True, "metavar": "NET"}, "Requests may come from here."),
    ("--expect", "expect", _many("PATH=VALUE"), "What a request must say."),
    ("--allow-unsigned/--signed-only", "allow_unsigned", {"default": None}, "For scheme none."),
)  # fmt: skip


def fields(command: F) -> F:
    """Add an option for every field of a source's table except its scheme."""
    for flag, name, rest, meaning in reversed(_OPTIONS):
        command = click.option(flag, name, help=meaning, **rest)(command)
    return command


def given(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that were typed."""
    return {name: value for name, value in typed.items() if value not in (None, ())}


def secret(typed: str) -> str:
    """Return what was typed after ``--secret``: a reference, or with ``-`` what is read.

    A secret itself is not taken from the command line, where everybody on the machine sees it.
    """
    if typed == "-":
        return _read()
    if not is_reference(typed):
        message = (
            "everybody on this machine could read a secret on the command line; write env:NAME "
            "or file:PATH, or - to be asked for it or to read it from standard input"
        )
        raise click.UsageError(message)
    if typed.startswith(_FILE):
        return f"{_FILE}{Path(typed.removeprefix(_FILE)).absolute()}"
    return typed


def _read() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("secret", hide_input=True, err=True)).strip()
    try:
        return sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError:
        message = "standard input is not UTF-8; send the secret as text"
        raise click.UsageError(message) from None
