"""Redaction: what may be a secret in a rejected request is sealed before it is stored."""

import re

import msgspec

from oncebox.model.delivery import Headers, encode_headers
from oncebox.model.quarantine import Kept, Rejected
from oncebox.model.sighting import classify_reject
from oncebox.seal import MasterKey

#: header names whose values let somebody in; a signature lets nobody in without its body
_SECRET = re.compile(
    r"authori[sz]ation|cookie|token|secret|passw|api-?key|credential", re.IGNORECASE
)
#: what stands in the place of such a value
SEALED = "[sealed]"


class _Secrets(msgspec.Struct, frozen=True):
    """What is sealed: the whole URL, and header values by their place."""

    url: str
    values: dict[int, str]


def seal(rejected: Rejected, key: MasterKey) -> Kept:
    """Return a rejected request fit to be stored."""
    headers = [(_plain(name), _plain(value)) for name, value in rejected.headers]
    values = {place: pair[1] for place, pair in enumerate(headers) if _SECRET.search(pair[0])}
    shown = tuple(
        (name, SEALED if place in values else value) for place, (name, value) in enumerate(headers)
    )
    url = _plain(rejected.url)
    secrets = msgspec.json.encode(_Secrets(url, values))
    sealed = key.seal(secrets, bound_to=_bound_to(rejected.tenant, rejected.id))
    size = len(rejected.body) + len(encode_headers(shown)) + len(sealed)
    return Kept(
        rejected.id, rejected.tenant, rejected.source, _plain(rejected.reason),
        classify_reject(rejected.reason).value, rejected.received_at, _plain(rejected.method),
        url.partition("?")[0], shown, rejected.body, size, sealed,
    )  # fmt: skip


def unseal(kept: Kept, key: MasterKey) -> Rejected:
    """Return a request as it came, so that it can be checked again.

    Raises: MasterKeyWrong.
    """
    opened = key.open(kept.sealed, bound_to=_bound_to(kept.tenant, kept.id))
    secrets = msgspec.json.decode(opened, type=_Secrets)
    return Rejected(
        id=kept.id,
        tenant=kept.tenant,
        source=kept.source,
        reason=kept.reason,
        method=kept.method,
        url=secrets.url,
        headers=_restored(kept.headers, secrets.values),
        body=kept.body,
        received_at=kept.received_at,
    )


def _restored(headers: Headers, values: dict[int, str]) -> Headers:
    return tuple((name, values.get(place, value)) for place, (name, value) in enumerate(headers))


def _plain(text: str) -> str:
    """Spell out what no database takes: lone surrogates and the null character."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _bound_to(tenant: str, id_: str) -> bytes:
    return f"quarantine\0{tenant}\0{id_}".encode()
