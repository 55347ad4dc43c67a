"""The master key as a person has it: in a setting, or in a file."""

from pathlib import Path

from oncebox.cli.call import database_file
from oncebox.config import Settings
from oncebox.errors import MasterKeyMissing


def place(settings: Settings) -> Path | None:
    """Return the file that holds the key, or would; None where the key itself is set."""
    if settings.master_key:
        return None
    if settings.master_key_file:
        return Path(settings.master_key_file).absolute()
    path = database_file(settings)
    return None if path is None else path.with_suffix(".key")


def text(settings: Settings) -> str | None:
    """Return the key as it is written down; None if its file is not there.

    Raises: MasterKeyMissing.
    """
    path = place(settings)
    if path is None:
        return settings.master_key
    try:
        return path.read_text("ascii")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        message = f"the master key file {path} cannot be read; check its owner and permissions"
        raise MasterKeyMissing(message) from error
