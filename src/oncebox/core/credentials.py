"""Credentials file: the service's URL and an API key for this user's own programs."""

from pathlib import Path
from typing import Any

import msgspec

from oncebox.errors import ConfigInvalid

_FILE_NAME = "credentials.json"


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """A URL and a key; printing it never shows the key."""

    url: str
    key: str

    def __repr__(self) -> str:
        """Show the address, never the key."""
        return f"Credentials(url={self.url!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show no more than ``repr`` does."""
        return [("url", self.url)]


def path(folder: Path) -> Path:
    """Return the credentials file of a data folder."""
    return folder / _FILE_NAME


def read(folder: Path) -> Credentials | None:
    """Return the credentials of a data folder, if there are any.

    Raises: ConfigInvalid.
    """
    file = path(folder)
    try:
        return msgspec.json.decode(file.read_bytes(), type=Credentials)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigInvalid(
            f"the credentials file {file} cannot be read; fix it, or delete it"
        ) from error


def write(folder: Path, credentials: Credentials) -> Credentials:
    """Write the file, readable by its owner only, unless there is one; return what it holds.

    Raises: ConfigInvalid.
    """
    # Reading needs none of these.
    from oncebox.core.files import create_private_folder, write_private_file  # noqa: PLC0415

    try:
        create_private_folder(folder)
        write_private_file(path(folder), msgspec.json.encode(credentials) + b"\n")
    except OSError as error:
        raise ConfigInvalid(
            f"the folder {folder} cannot be written; choose one with ONCEBOX_DATA_DIR"
        ) from error
    return read(folder) or credentials
