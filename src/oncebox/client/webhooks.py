"""`verify`: check the signature of a webhook that a program receives itself."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oncebox.core import clock
from oncebox.webhooks import registry
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.verification import Verdict, check_scheme, parse_options, verify_fresh


def verify(  # noqa: PLR0913 - the parts of a request
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

    ``body`` is the raw bytes, as they were received. ``secret`` may be several, to rotate them
    without a gap. ``oncebox hook schemes`` lists every ``scheme``; the default is the one
    that Oncebox signs with. ``url`` is needed by schemes that sign it. ``now`` is in milliseconds.

    Raises: SignatureInvalid, also if it is too old; KeyFetchRequired, if a public key must be given
    as the secret; UnknownScheme and ConfigInvalid, for arguments that can never work.
    """
    _check_bytes(body)
    found = registry.find_scheme(scheme)
    parsed = parse_options(options or {})
    secrets = [secret] if isinstance(secret, str) else list(secret)
    check_scheme(found, secrets, parsed)
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    request = WebhookRequest(method=method, url=url, headers=tuple(pairs), body=body)
    time = clock.system() if now is None else now
    return verify_fresh(found, request, secrets, now=time, options=parsed)


def _check_bytes(body: object) -> None:
    """Refuse text: it may differ from the bytes that were signed."""
    if not isinstance(body, bytes):
        raise TypeError("give the body as bytes, exactly as it was received")
