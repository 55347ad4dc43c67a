"""Access: where the service is and the key to it, as given, in the environment, or in a file."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import httpx2
import platformdirs

from oncebox import credentials
from oncebox.credentials import Credentials
from oncebox.errors import ConfigInvalid

_URL = "ONCEBOX_URL"
_KEY = "ONCEBOX_API_KEY"
_KEY_FILE = "ONCEBOX_API_KEY_FILE"
_FOLDER = "ONCEBOX_DATA_DIR"
_FILE = "ONCEBOX_CONFIG"
#: where ``oncebox serve`` listens unless told otherwise
_DEFAULT_URL = "http://127.0.0.1:8808"


def find(url: str | None, key: str | None, environ: Mapping[str, str] | None = None) -> Credentials:
    """Return the address and the key to use.

    What is not given is taken from ``ONCEBOX_URL`` and ``ONCEBOX_API_KEY`` or
    ``ONCEBOX_API_KEY_FILE``, else from the credentials file that ``oncebox serve`` writes. The
    key in that file is for the address in that file and goes nowhere else.

    Raises: ConfigInvalid.
    """
    environ = os.environ if environ is None else environ
    url = url or environ.get(_URL) or None
    key = key or environ.get(_KEY) or _from_file(environ.get(_KEY_FILE))
    if url is None or key is None:
        filed = credentials.read(_folder(environ))
        if filed is not None and key is None and (url is None or _same(url, filed.url)):
            key = filed.key
        url = url or (filed.url if filed is not None else _DEFAULT_URL)
    if key is None:
        message = (
            f"no API key: set {_KEY} or {_KEY_FILE}, or run this as the user and on the machine "
            "of: oncebox serve"
        )
        raise ConfigInvalid(message)
    return Credentials(url=_checked_url(url), key=_checked_key(key))


def _from_file(name: str | None) -> str | None:
    if not name:
        return None
    try:
        return Path(name).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        message = f"the file that {_KEY_FILE} names cannot be read: {name}"
        raise ConfigInvalid(message) from error


def _folder(environ: Mapping[str, str]) -> Path:
    """Return the data folder of ``oncebox serve``, found as it finds it."""
    named = environ.get(_FOLDER) or _filed_folder(environ.get(_FILE))
    return Path(named or platformdirs.user_data_dir("oncebox")).absolute()


def _filed_folder(named: str | None) -> str | None:
    try:
        found = tomllib.loads(Path(named or "oncebox.toml").read_text("utf-8")).get("data_dir")
    except (OSError, ValueError):  # whoever needs its other settings will complain
        return None
    return found if isinstance(found, str) else None


def _same(url: str, other: str) -> bool:
    return url.rstrip("/") == other.rstrip("/")


def _checked_url(url: str) -> str:
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ConfigInvalid(_BAD_URL) from error
    if parts.scheme not in {"http", "https"} or not parts.host or parts.query or parts.fragment:
        raise ConfigInvalid(_BAD_URL)
    if parts.userinfo:
        message = "the address must not hold a user or password; the API key is given apart"
        raise ConfigInvalid(message)
    return url.rstrip("/")


def _checked_key(key: str) -> str:
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        message = "the API key is not one: keys begin with obx_ and have no spaces"
        raise ConfigInvalid(message)
    return key


_BAD_URL = "the address of the service must look like https://oncebox.example.com"
