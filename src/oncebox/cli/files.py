"""Files of an installation: the database, the master key file and the settings file."""

import os
from pathlib import Path

from oncebox.cli.context import database_file
from oncebox.cli.output.redaction import redacted_url
from oncebox.errors import MasterKeyMissing
from oncebox.settings import Settings


def database_location(settings: Settings) -> str:
    """Return the file or URL of the database, without a password."""
    path = database_file(settings)
    return str(path) if path else redacted_url(settings.database)


def master_key_path(settings: Settings) -> Path | None:
    """Return the path of the key file, which need not exist; None if the key itself is set."""
    if settings.master_key:
        return None
    if settings.master_key_file:
        return Path(settings.master_key_file).absolute()
    path = database_file(settings)
    return None if path is None else path.with_suffix(".key")


def read_master_key(settings: Settings) -> str | None:
    """Return the text of the key; None if its file does not exist."""
    path = master_key_path(settings)
    if path is None:
        return settings.master_key
    try:
        return path.read_text("ascii")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise MasterKeyMissing(
            f"the master key file {path} cannot be read; check its owner and permissions"
        ) from error


def settings_file() -> Path:
    """Return the path of the settings file, which need not exist."""
    return Path(os.environ.get("ONCEBOX_CONFIG") or "oncebox.toml").absolute()
