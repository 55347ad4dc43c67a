"""The page of all commands, as click knows them."""

import re
from collections.abc import Iterator

import click

from oncebox.cli.main import root
from oncebox.cli.output import failures
from tests.docs.markdown import page, plain, table

#: what an exit code means, by its name in ``failures``
EXIT_CODES = {
    "OK": "success",
    "ERROR": (
        "an error; of `inbox wait`: nothing arrived in time; of `send mail`: it ended without "
        "being sent; of `transport test`: it does not work; of `doctor`: a failed check; of "
        "`hook verify`: an invalid signature; of `link check`: a refused link; of "
        "`mail authenticate`: an unproven sender; of `mail parse` and `mail extract`: a mail that "
        "cannot be parsed completely; of `quarantine retry`: a request that is still invalid"
    ),
    "USAGE": "invalid arguments",
    "NOT_FOUND": "not found",
    "CONFLICT": "not possible in its current state, or a known key with another body",
    "INTERRUPTED": "interrupted by ^C",
}
_INTRO = """\
Every command prints this with `--help`.
Daily use is in [operate](../operating.md).

An error is one line on standard error, `error: code: message`; with `--json` it is
`{"error": {"code": …, "message": …, "retry_safe": …}}`.
The codes are in [errors](errors.md)."""
_COMMON = ("database", "data_dir", "as_json", "quiet")
#: the default, as the text of an option tells it
_DEFAULT = re.compile(r"\s*\[([^\]]+)\]")


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command that can be typed, with its words, in the order of the help."""
    yield from _below("oncebox", root)


def cli_page() -> str:
    """Return the page."""
    parts = [
        _overview(),
        "## Exit codes",
        table(
            ("code", "meaning"),
            ((str(getattr(failures, name)), text) for name, text in EXIT_CODES.items()),
        ),
        "## Common options",
        _options(_common()),
        *(_command(words, command) for words, command in commands()),
    ]
    return page("Commands", _INTRO, "\n\n".join(parts))


def _overview() -> str:
    """Return every command with the first sentence of its help, linked to its section."""
    rows = (
        (f"[`{words}`](#{words.replace(' ', '-')})", _said(command).partition("\n")[0])
        for words, command in commands()
    )
    return table(("command", "does"), rows)


def _below(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command, info_name=words)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _below(f"{words} {name}", found)


def _common() -> list[click.Option]:
    _, first = next(commands())
    options = [each for each in first.params if isinstance(each, click.Option)]
    return [each for each in options if each.name in _COMMON]


def _command(words: str, command: click.Command) -> str:
    context = click.Context(command, info_name=words)
    usage = " ".join(command.collect_usage_pieces(context))
    own = [
        each
        for each in command.params
        if isinstance(each, click.Option) and each.name not in _COMMON and not each.hidden
    ]
    parts = [f"## {words}", _said(command), f"```text\n{words} {usage}\n```"]
    if own:
        parts.append(_options(own))
    if command.epilog:
        parts.append(f"```text\n{_examples(command.epilog)}\n```")
    return "\n\n".join(parts)


def _said(command: click.Command) -> str:
    text = (command.help or "").partition("\f")[0].replace("\b\n", "")
    return "\n\n".join(" ".join(each.split()) for each in plain(text).strip().split("\n\n"))


def _examples(epilog: str) -> str:
    lines = epilog.replace("\b", "").strip().splitlines()
    return "\n".join(line.removeprefix("  ") for line in lines if line.strip() != "Examples:")


def _options(options: list[click.Option]) -> str:
    return table(("option", "default", "meaning"), map(_option, options))


def _option(option: click.Option) -> tuple[str, str, str]:
    context = click.Context(click.Command("x"))
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" `{_value(option, context)}`"
    text = plain(option.help or "")
    told = _DEFAULT.search(text)
    default = told[1] if told else _default(option, context)
    meaning = " ".join(_DEFAULT.sub("", text).split())
    required = "Required. " if option.required else ""
    return f"{names}{value}", default, f"{required}{meaning}"


def _value(option: click.Option, context: click.Context) -> str:
    kind = option.type
    if not isinstance(kind, click.IntRange) or option.metavar:
        return option.make_metavar(context)
    return f"{kind.min}…{'' if kind.max is None else kind.max}"


def _default(option: click.Option, context: click.Context) -> str:
    value = option.get_default(context)
    return f"`{value}`" if option.show_default and value is not None else ""
