"""A door: a source made ready to judge requests, so that nothing is looked up per request."""

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import msgspec

from oncebox.model.ordering import LaneRules
from oncebox.model.source import Entry, Source
from oncebox.signature import schemes
from oncebox.signature.scheme import Options, Scheme
from oncebox.signature.tuning import check, options_for

Network = IPv4Network | IPv6Network


class Door(msgspec.Struct, frozen=True):
    """Where the requests of one source are judged."""

    source: Source
    scheme: Scheme
    options: Options
    #: in the order in which they are tried, and their ids beside them
    secrets: tuple[str, ...]
    secret_ids: tuple[str, ...]
    networks: tuple[Network, ...]
    #: what becomes of a genuine request that comes after its time: ``hold`` or ``run``
    late: str
    lanes: LaneRules

    def lets_in(self, address: str) -> bool:
        """Say whether a request may come from an address."""
        if not self.networks:
            return True
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        return any(ip in network for network in self.networks)


class Doors:
    """The doors of all sources; each is built once for every change of its source."""

    def __init__(self) -> None:
        """Begin with none."""
        self._doors: dict[str, tuple[Entry, Door]] = {}

    def of(self, entry: Entry) -> Door:
        """Return the door of a source.

        Raises: ConfigInvalid, OnceboxError, if its scheme or options cannot be used.
        """
        name = entry.source.public_id
        known = self._doors.get(name)
        if known is not None and known[0] is entry:
            return known[1]
        door = _door(entry.source)
        self._doors[name] = (entry, door)
        return door


def _door(source: Source) -> Door:
    scheme = schemes.find(source.scheme)
    options = options_for(
        scheme,
        source.options,
        public_url=source.public_url or "",
        allow_unsigned=source.allow_unsigned,
    )
    secrets = tuple(secret.value for secret in source.secrets)
    check(scheme, secrets, options)
    return Door(
        source=source,
        scheme=scheme,
        options=options,
        secrets=secrets,
        secret_ids=tuple(secret.id for secret in source.secrets),
        networks=tuple(ip_network(text, strict=False) for text in source.cidrs),
        late=source.late or scheme.late,
        lanes=LaneRules(
            stale=source.stale,
            gap_wait=source.gap_wait,
            after=source.after,
            after_wait=source.after_wait,
        ),
    )
