"""Who asks: API keys, and how often a wrong one may be tried."""

import hashlib
from collections.abc import Iterable

from oncebox import clock
from oncebox.edge.address import network
from oncebox.edge.buckets import Buckets
from oncebox.edge.http.route import WORKER, Route
from oncebox.ledger.office.keyring import KeyRing
from oncebox.model.key import ApiKey
from oncebox.refusals import Forbidden, TooManyRequests, Unauthenticated
from oncebox.telemetry import Telemetry

_BEARER = b"bearer "
_LONGEST = 200
_MOST_TRUSTED = 1_000


class Auth:
    """Checks the key of every call; whatever is wrong with it, the answer is the same."""

    def __init__(self, keys: KeyRing, telemetry: Telemetry, *, home: str, wrong_keys: int) -> None:
        """Allow each address so many wrong keys per minute; 0 is any number."""
        self._keys = keys
        self._telemetry = telemetry
        self._home = home
        self._buckets = Buckets(wrong_keys / 60, burst=wrong_keys) if wrong_keys else None
        #: hashes of keys that were right, which a flood of wrong ones does not keep out
        self._trusted: dict[bytes, None] = {}

    async def check(
        self, headers: Iterable[tuple[bytes, bytes]], address: str, route: Route
    ) -> ApiKey:
        """Return the key of a call that may be made with it.

        Raises: Unauthenticated, Forbidden, TooManyRequests, StoreError.
        """
        key = await self.who(headers, address)
        if not may(key, route, home=self._home):
            raise Forbidden
        return key

    async def who(self, headers: Iterable[tuple[bytes, bytes]], address: str) -> ApiKey:
        """Return the key that came with a request, whatever it may do.

        Raises: Unauthenticated, TooManyRequests, StoreError.
        """
        text = _bearer(headers)
        digest = hashlib.sha256(text.encode()).digest()
        if digest not in self._trusted:
            self._refuse_flood(address)
        key = await self._keys.check(text)
        if key is None:
            self._trusted.pop(digest, None)
            self._telemetry.wrong_keys.inc()
            if self._buckets is not None:
                self._buckets.take(network(address), clock.steady())
            raise Unauthenticated
        self._trust(digest)
        return key

    def _refuse_flood(self, address: str) -> None:
        if self._buckets is None:
            return
        wait = self._buckets.wait(network(address), clock.steady())
        if wait:
            raise TooManyRequests(retry_after=wait)

    def _trust(self, digest: bytes) -> None:
        if digest not in self._trusted:
            while len(self._trusted) >= _MOST_TRUSTED:
                del self._trusted[next(iter(self._trusted))]
            self._trusted[digest] = None


def may(key: ApiKey, route: Route, *, home: str) -> bool:
    """Say whether a key has what a route asks for."""
    if route.home and key.tenant != home:
        return False
    if WORKER in route.scopes and any(scope.startswith("worker:") for scope in key.scopes):
        return True
    return key.may(*route.scopes)


def _bearer(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the key's text; nothing where there is none, or more than one."""
    found = [value for name, value in headers if name == b"authorization"]
    if len(found) != 1 or len(found[0]) > _LONGEST:
        return ""
    if found[0][: len(_BEARER)].lower() != _BEARER:
        return ""
    return found[0][len(_BEARER) :].decode("latin-1")
