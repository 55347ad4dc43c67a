"""``oncebox mcp``: the agent's tools over stdin and stdout, through a service."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oncebox.cli.call import Call, examples, with_call

if TYPE_CHECKING:  # most commands need no HTTP
    from oncebox.credentials import Credentials

#: a data folder that is named on the command line beats these
_ELSEWHERE = {"ONCEBOX_URL", "ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE"}


@click.command(
    "mcp",
    epilog=examples(
        "oncebox mcp",
        "oncebox mcp --url https://oncebox.example.com --key-file ~/.oncebox-key",
        "ONCEBOX_API_KEY=obx_… oncebox mcp",
    ),
)
@click.option("--url", metavar="URL", help="Where the service is (ONCEBOX_URL).")
@click.option("--key-file", metavar="FILE", help="A file with an API key (ONCEBOX_API_KEY_FILE).")
@with_call
def mcp(call: Call, *, url: str | None, key_file: str | None) -> None:
    """Give an agent its tools by MCP, until its input is closed.

    It speaks to a running service. Without options it finds the service and its key as programs
    do: in the environment, else in the file that `oncebox serve` writes. Give the agent a key of
    its own: oncebox key new --scope agent.
    """
    from oncebox.mcp.extra import check  # noqa: PLC0415 - most commands need no tools

    check()
    access = _access(call, url, key_file)
    from oncebox.mcp import stdio  # noqa: PLC0415 - it takes a second

    stdio.run(access)


def _access(call: Call, url: str | None, key_file: str | None) -> "Credentials":
    """Return where the service is and the key to it, as the options and the client say.

    Raises: ConfigInvalid.
    """
    from oncebox.client import access  # noqa: PLC0415 - most commands need no HTTP

    environ = dict(os.environ)
    if call.data_dir is not None:
        environ = {name: environ[name] for name in environ.keys() - _ELSEWHERE}
        environ["ONCEBOX_DATA_DIR"] = str(Path(call.data_dir).absolute())
    if key_file is not None:
        environ.pop("ONCEBOX_API_KEY", None)
        environ["ONCEBOX_API_KEY_FILE"] = key_file
    return access.find(url, None, environ)
