"""`oncebox mcp`: the MCP tools for agents over stdin and stdout."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oncebox.cli.context import CommandContext, examples, with_context

if TYPE_CHECKING:  # most commands need no HTTP
    from oncebox.core.credentials import Credentials

#: overridden by a data folder on the command line
_SERVICE_VARIABLES = {"ONCEBOX_URL", "ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE"}


@click.command(
    "mcp",
    epilog=examples(
        "oncebox mcp",
        "oncebox mcp --url https://oncebox.example.com --key-file ~/.oncebox-key",
        "ONCEBOX_API_KEY=obx_… oncebox mcp",
    ),
)
@click.option("--url", metavar="URL", help="URL of the service (ONCEBOX_URL).")
@click.option("--key-file", metavar="FILE", help="File with an API key (ONCEBOX_API_KEY_FILE).")
@with_context
def mcp(call: CommandContext, *, url: str | None, key_file: str | None) -> None:
    """Serve the tools of an agent over MCP until standard input closes.

    The command calls a running service. Without options it finds service and key as programs do:
    in the environment, else in the file that `oncebox serve` writes. Give the agent a key of its
    own: oncebox key new --scope agent.
    """
    from oncebox.mcp.dispatch import check_installed  # noqa: PLC0415 - most commands need no tools

    check_installed()
    access = _service_credentials(call, url, key_file)
    from oncebox.mcp import mcp_server  # noqa: PLC0415 - it takes a second

    mcp_server.serve_stdio(access)


def _service_credentials(
    call: CommandContext, url: str | None, key_file: str | None
) -> "Credentials":
    """Return the URL and key of the service, from the options or as the client finds them."""
    from oncebox.client.core import network  # noqa: PLC0415 - most commands need no HTTP

    environ = dict(os.environ)
    if call.data_dir is not None:
        environ = {name: environ[name] for name in environ.keys() - _SERVICE_VARIABLES}
        environ["ONCEBOX_DATA_DIR"] = str(Path(call.data_dir).absolute())
    if key_file is not None:
        environ.pop("ONCEBOX_API_KEY", None)
        environ["ONCEBOX_API_KEY_FILE"] = key_file
    return network.find(url, None, environ)
