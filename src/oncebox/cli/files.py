"""Files of an installation: the database, the master key file and the settings file."""

import os
from collections.abc import Mapping
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
    """Return the file that holds the key, or would; None where the key itself is set."""
    if settings.master_key:
        return None
    if settings.master_key_file:
        return Path(settings.master_key_file).absolute()
    path = database_file(settings)
    return None if path is None else path.with_suffix(".key")


def read_master_key(settings: Settings) -> str | None:
    """Return the key as it is written down; None if its file is not there.

    Raises: MasterKeyMissing.
    """
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


def settings_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the settings file, which need not be there."""
    environ = os.environ if environ is None else environ
    return Path(environ.get("ONCEBOX_CONFIG") or "oncebox.toml").absolute()
