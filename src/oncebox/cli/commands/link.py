"""`oncebox link check`: does the link policy allow a link."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.output import failures
from oncebox.errors import ConfigInvalid
from oncebox.mail.links import link_policy
from oncebox.model.inboxes import link_rules
from oncebox.model.inboxes.link_rules import LinkVerdict

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _LinkCase(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded link, with its allowlist and DNS answers."""

    id: str
    url: str
    allowlist: list[str] = []
    local: list[str] = []
    #: addresses by name; without, nothing is resolved
    dns: dict[str, list[str] | None] | None = None


@click.command(
    "check",
    epilog=examples(
        "oncebox link check 'https://app.example.com/verify?token=…' --allow app.example.com",
        "oncebox link check http://localhost:3000/verify --local http://localhost:3000",
        "oncebox link check --batch cases.jsonl --json",
    ),
)
@click.argument("url", required=False, metavar="URL")
@click.option(
    "--allow",
    "allow",
    multiple=True,
    metavar="HOST",
    help="A host, *.host, https://host/path/, or * for any public name; repeatable.",
)
@click.option(
    "--local",
    "local",
    multiple=True,
    metavar="ORIGIN",
    help="An exact origin for tests, such as http://localhost:3000; repeatable.",
)
@click.option("--batch", type=_FILE, metavar="FILE", help="Check recorded links instead.")
@with_context
def check(
    call: CommandContext,
    *,
    url: str | None,
    allow: tuple[str, ...],
    local: tuple[str, ...],
    batch: Path | None,
) -> int:
    """Check whether the service would hand out a link.

    Nothing is fetched or looked up. The exit code is 1 if the link is refused. With --batch, one
    line is printed for each recorded link.

    """
    if batch is not None:
        for case in _load_cases(batch):
            _print_case(call, case)
        return failures.OK
    if url is None:
        raise click.UsageError("give a link, or recorded ones with --batch")
    entries = [link_rules.normalize_entry(text) for text in allow]
    origins = [link_rules.normalize_origin(text) for text in local]
    found = link_policy.link_verdict(url, entries, local=origins)
    _print_verdict(call, found)
    return failures.OK if found.allowed else failures.ERROR


def _print_case(call: CommandContext, case: _LinkCase) -> None:
    answers = {name.lower(): addresses for name, addresses in (case.dns or {}).items()}
    found = link_policy.link_verdict(
        case.url,
        case.allowlist,
        local=case.local,
        resolve=None if case.dns is None else answers.get,
    )
    if call.out.as_json:
        call.out.record({"id": case.id, "verdict": _word(found), "reason": found.reason})
    else:
        call.out.line(f"{case.id}  {_word(found)}  {found.reason}")


def _word(found: LinkVerdict) -> str:
    return "allow" if found.allowed else "block"


def _print_verdict(call: CommandContext, found: LinkVerdict) -> None:
    if call.out.as_json:
        call.out.record({
            "verdict": _word(found), "reason": found.reason, "url": found.canonical,
            "host": found.host, "token": found.token, "parameters": found.parameters,
        })  # fmt: skip
    elif call.out.quiet:
        call.out.line(_word(found))
    else:
        call.out.outline(list(_verdict_lines(found)))


def _verdict_lines(found: LinkVerdict) -> Iterator[tuple[str, str]]:
    yield "verdict", f"{_word(found)} ({found.reason})"
    if found.host:
        yield "host", found.host
    if found.allowed:
        yield "link", found.canonical
        if found.token:
            yield "token", found.token
        for name, value in found.parameters:
            yield f"parameter {name}", value


def _load_cases(path: Path) -> list[_LinkCase]:
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    try:
        # json, because msgspec refuses lone surrogates, which the policy must check too.
        return [msgspec.convert(json.loads(line), _LinkCase) for line in lines]
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigInvalid(f"{path} is not a list of links, one JSON object a line") from error
