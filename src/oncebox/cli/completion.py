"""``oncebox completion``: what makes a shell complete our commands and options."""

import click
from click.shell_completion import get_completion_class

from oncebox.cli.call import Call, examples, with_call
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
@with_call
def completion(call: Call, *, shell: str) -> None:
    """Print a script by which a shell completes commands and options.

    Write it to where the shell looks for such scripts, as below, and start a new shell. zsh
    looks only in folders of its fpath.
    """
    kind = get_completion_class(shell)
    if kind is None:
        message = f"this version of click knows no {shell}; install click 8.2 or newer"
        raise ConfigInvalid(message)
    root = click.get_current_context().find_root().command
    script = kind(root, {}, _PROGRAM, _VARIABLE).source()
    if call.out.as_json:
        call.out.record({"shell": shell, "script": script})
    else:
        click.echo(script, nl=False)
