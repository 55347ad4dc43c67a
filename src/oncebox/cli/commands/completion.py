"""`oncebox completion`: print the completion script of a shell."""

import click
from click.shell_completion import get_completion_class

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.errors import ConfigInvalid

_SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "oncebox"
_VARIABLE = "_ONCEBOX_COMPLETE"


@click.command(
    "completion",
    epilog=examples(
        "oncebox completion bash > ~/.local/share/bash-completion/completions/oncebox",
        "oncebox completion zsh > ~/.zfunc/_oncebox",
        "oncebox completion fish > ~/.config/fish/completions/oncebox.fish",
    ),
)
@click.argument("shell", type=click.Choice(_SHELLS))
@with_context
def completion(call: CommandContext, *, shell: str) -> None:
    """Print the completion script of a shell.

    Write it to where the shell loads completions from, as below, and start a new shell. zsh loads
    them only from folders in its fpath.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise ConfigInvalid(
            f"this version of click does not support {shell}; install click 8.2 or newer"
        )
    root = click.get_current_context().find_root().command
    script = kind(root, {}, _PROGRAM, _VARIABLE).source()
    if call.out.as_json:
        call.out.record({"shell": shell, "script": script})
    else:
        click.echo(script, nl=False)
