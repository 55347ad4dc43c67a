"""For programs that receive webhooks themselves: one call that says yes, or raises."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oncebox import clock
from oncebox.signature import schemes
from oncebox.signature.request import Request
from oncebox.signature.tuning import check, options_from
from oncebox.signature.verification import Verdict, verify_strictly


def verify(  # noqa: PLR0913 - a request simply has this many sides
    headers: Mapping[str, str] | Iterable[tuple[str, str]],
    body: bytes,
    secret: str | Sequence[str],
    *,
    scheme: str = "standard-webhooks",
    method: str = "POST",
    url: str = "",
    options: Mapping[str, Any] | None = None,
    now: int | None = None,
) -> Verdict:
    """Return the verdict on a webhook that is genuine and fresh.

    ``body`` is the raw bytes, as they were received. ``secret`` may be several, to change them
    without a gap. ``scheme`` is any that ``oncebox hook schemes`` lists; the default is how
    Oncebox signs. ``url`` is needed by schemes that sign it. ``now`` is in milliseconds.

    Raises: SignatureInvalid, also if it is too old; KeyWanted, where a public key must be given
    as the secret; UnknownScheme and ConfigInvalid, for what can never work.
    """
    _check_bytes(body)
    found = schemes.find(scheme)
    tuning = options_from(options or {})
    secrets = [secret] if isinstance(secret, str) else list(secret)
    check(found, secrets, tuning)
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    request = Request(method=method, url=url, headers=tuple(pairs), body=body)
    moment = clock.system() if now is None else now
    return verify_strictly(found, request, secrets, now=moment, options=tuning)


def _check_bytes(body: object) -> None:
    """Refuse text: frameworks offer it, and it may differ from what was signed."""
    if not isinstance(body, bytes):
        message = "give the body as bytes, exactly as it was received"
        raise TypeError(message)
