"""Options of transports and mailboxes: secrets by reference, files with certificates or JSON."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from oncebox.cli import options
from oncebox.errors import ConfigInvalid
from oncebox.ledger.admin import sources

SECRET_METAVAR = "env:NAME|file:PATH|-"  # noqa: S105 - a placeholder in the help
FILE_TYPE = click.Path(exists=True, dir_okay=False, path_type=Path)


def check_one_input(references: Iterable[str | None]) -> None:
    """Refuse more than one secret from standard input."""
    if sum(each == "-" for each in references) > 1:
        raise click.UsageError(
            "standard input holds only one secret; give the others by env: or file:"
        )


def fetch_secret(typed: str) -> str:
    """Return the secret of a reference; it is stored encrypted.

    Raises: ConfigInvalid, SecretUnavailable.
    """
    text = options.read_secret(typed)
    sources.check_secret(text)
    if not sources.is_reference(text):
        return text
    return sources.resolve_reference(text, os.environ, sources.COMMAND)


def read_pem(path: Path) -> str:
    """Return the certificates in a file.

    Raises: ConfigInvalid.
    """
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeError) as error:
        raise ConfigInvalid(
            f"the certificates in {path} cannot be read; give them in PEM format"
        ) from error


def read_json_table(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises: ConfigInvalid.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeError) as error:
        raise ConfigInvalid(f"{path} cannot be read; write one JSON object into it") from error
