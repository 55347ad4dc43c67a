"""Resume tokens: since when somebody waits, sealed, and only for the very same request."""

import base64
import re

import msgspec

from oncebox.errors import CursorForeign, MasterKeyWrong
from oncebox.refusals import CursorInvalid
from oncebox.seal import MasterKey

#: says how the rest is to be read; another number means another way
_VERSION = "w1_"
_TOKEN = re.compile(_VERSION + r"([A-Za-z0-9_-]{38,8000})")
#: what may be another with every request
_PASSING = frozenset({"wait", "resume"})


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """How long somebody waits already."""

    #: when the first request came, in milliseconds since 1970
    began_at: int


class Resumes:
    """Makes and reads the tokens of one request."""

    def __init__(
        self,
        master_key: MasterKey,
        *,
        tenant: str,
        key: str,
        inboxes: tuple[str, ...],
        asked: msgspec.Struct,
    ) -> None:
        """Bind them to the tenant, the API key, the inboxes and all that is asked for."""
        said = msgspec.to_builtins(asked)
        kept = {name: said[name] for name in sorted(said) if name not in _PASSING}
        words = msgspec.json.encode([tenant, key, sorted(set(inboxes)), kept | {"inboxes": None}])
        self._bound_to = b"resume\0" + words
        self._master_key = master_key

    def make(self, progress: Progress) -> str:
        """Return a token."""
        sealed = self._master_key.seal(msgspec.json.encode(progress), bound_to=self._bound_to)
        return _VERSION + base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def read(self, token: str) -> Progress:
        """Return what a token holds.

        Raises: CursorInvalid, when it is none; CursorForeign, when it is for another request.
        """
        text = _TOKEN.fullmatch(token)
        if text is None:
            message = "resume is not a token that was given out; begin without one"
            raise CursorInvalid(message)
        try:
            sealed = base64.urlsafe_b64decode(text[1] + "=" * (-len(text[1]) % 4))
            opened = self._master_key.open(sealed, bound_to=self._bound_to)
        except (ValueError, MasterKeyWrong) as error:
            message = (
                "this resume token was given out for another request; send it with the same "
                "key, inboxes and wishes, or begin without one"
            )
            raise CursorForeign(message) from error
        return msgspec.json.decode(opened, type=Progress)
