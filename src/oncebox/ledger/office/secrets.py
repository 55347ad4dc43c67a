"""Secrets of sources: sealed for their row, or fetched from where a reference points."""

import re
import stat
from collections.abc import Mapping
from pathlib import Path

from oncebox.errors import ConfigInvalid, SecretUnavailable
from oncebox.ledger.office.sources import KeptSecret
from oncebox.model.source import SourceSecret
from oncebox.seal import MasterKey

_ENV, _FILE = "env:", "file:"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: the longest secret, in characters or bytes; a certificate fits
_LONGEST = 65_536


def is_reference(text: str) -> bool:
    """Say whether a text points to a secret instead of being one."""
    return text.startswith((_ENV, _FILE))


def check_text(text: str) -> None:
    """Refuse what can be neither a secret nor a reference; the text is never quoted.

    Raises: ConfigInvalid.
    """
    if text.startswith(_ENV) and not _VARIABLE.fullmatch(text.removeprefix(_ENV)):
        raise ConfigInvalid("after env: comes the name of a variable, such as env:STRIPE_SECRET")
    if text.startswith(_FILE) and not text.removeprefix(_FILE).strip("\0 "):
        raise ConfigInvalid("after file: comes a path, such as file:/run/secrets/stripe")
    if not 1 <= len(text) <= _LONGEST:
        raise ConfigInvalid(f"a secret has between 1 and {_LONGEST} characters")


def sealed(
    master_key: MasterKey, *, tenant: str, id_: str, text: str, created_at: int
) -> KeptSecret:
    """Return a secret in the form it is kept in: a reference as it is, a value sealed.

    Raises: ConfigInvalid.
    """
    check_text(text)
    if is_reference(text):
        return KeptSecret(id_, None, text, created_at)
    closed = master_key.seal(text.encode(), bound_to=_bound(tenant, id_))
    return KeptSecret(id_, closed, None, created_at)


def opened(
    kept: KeptSecret, *, tenant: str, master_key: MasterKey, environ: Mapping[str, str]
) -> SourceSecret:
    """Return a secret with its value.

    Raises: SecretUnavailable, MasterKeyWrong.
    """
    if kept.reference is not None:
        value = fetched(kept.reference, environ)
    elif kept.sealed is not None:
        value = master_key.open(kept.sealed, bound_to=_bound(tenant, kept.id)).decode()
    else:
        raise SecretUnavailable("this secret was retired and its value erased; add a new one")
    return SourceSecret(
        id=kept.id,
        value=value,
        reference=kept.reference,
        created_at=kept.created_at,
        retired_at=kept.retired_at,
    )


def fetched(reference: str, environ: Mapping[str, str]) -> str:
    """Return the secret a reference points to, without white space around it.

    Raises: SecretUnavailable.
    """
    if reference.startswith(_ENV):
        return _from_environ(reference.removeprefix(_ENV), environ)
    return _from_file(Path(reference.removeprefix(_FILE)))


def _from_environ(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name, "").strip()
    if not value:
        message = f"the variable {name} is not set in the environment of this process; set it"
        raise SecretUnavailable(message)
    return value


def _from_file(path: Path) -> str:
    try:
        # A pipe or device might never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise SecretUnavailable(f"{path} is not a file; name the file that holds the secret")
        with path.open("rb") as file:
            value = file.read(_LONGEST + 1).decode().strip()
    except (OSError, ValueError) as error:
        message = f"the file {path} cannot be read as text; check that it is there and readable"
        raise SecretUnavailable(message) from error
    if not 1 <= len(value) <= _LONGEST:
        raise SecretUnavailable(f"the file {path} is empty or too long; put the secret into it")
    return value


def _bound(tenant: str, id_: str) -> bytes:
    """Bind a sealed secret to its tenant and row, so that it opens for no other."""
    return f"oncebox_source_secrets\0{tenant}\0{id_}\0sealed".encode()
