"""Endpoints: URLs to which events are delivered; which events, their order, and the answers."""

import base64
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.model.deliveries.retry import RetryRules
from oncebox.model.events import Event, EventType
from oncebox.model.validation import is_single_line

#: deliveries to an endpoint are of the source with this prefix and its name
SOURCE_PREFIX = "@endpoint:"
#: about 28 hours: the time is used up before the tries are
RETRY_RULES = RetryRules(tries=60, budget=100_800_000, first_wait=5_000, longest_wait=18_000_000)
#: deliveries in progress at one endpoint
DEFAULT_CONCURRENCY = 8
_MOST_CONCURRENCY = 100
_LONGEST_URL = 2_000
_MOST_SECRETS = 4
_SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret begins with
_SHORTEST_SECRET = 16
_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?")


class EndpointOrder(StrEnum):
    """What is delivered one after the other, in the order of the events."""

    NONE = "none"
    INBOX = "inbox"
    ATTEMPT = "attempt"
    SOURCE = "source"


class EndpointPause(StrEnum):
    """Why nothing is delivered to an endpoint."""

    OPERATOR = "operator"
    #: it answered 410
    GONE = "gone"


class EndpointFields(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured of an endpoint, besides its secrets."""

    name: str
    #: https; http only where the settings allow the host
    url: str
    #: event types, or families such as ``send.*``; none: all
    types: tuple[str, ...] = ()
    #: only events of this inbox, attempt or source
    inbox_id: str | None = None
    attempt_id: str | None = None
    source: str | None = None
    ordering: EndpointOrder = EndpointOrder.NONE
    concurrency: int = DEFAULT_CONCURRENCY


class Endpoint(EndpointFields, frozen=True, kw_only=True):
    """An endpoint as it is stored."""

    tenant: str
    #: encrypted
    secrets: bytes
    #: the last event before it was added
    since: int
    paused: EndpointPause | None = None
    #: consecutive ones
    failures: int = 0
    failed_at: int | None = None
    succeeded_at: int | None = None
    #: its circuit breaker is open until then
    rests_until: int | None = None
    created_at: int
    changed_at: int

    @property
    def delivery_source(self) -> str:
        """The source of its deliveries."""
        return SOURCE_PREFIX + self.name

    def wants(self, event: Event) -> bool:
        """Say whether an event is delivered to it."""
        return (
            event.number > self.since
            and (not self.types or any(_is_of_type(event.type, each) for each in self.types))
            and self.inbox_id in {None, event.inbox_id}
            and self.attempt_id in {None, event.attempt_id}
            and self.source in {None, event.data.get("source")}
            and not _is_about_endpoints(event, self.name)
        )

    def lane(self, event: Event) -> str | None:
        """Return what an event is delivered in order with; None: in any order."""
        keys = {
            EndpointOrder.INBOX: event.inbox_id,
            EndpointOrder.ATTEMPT: event.attempt_id,
            EndpointOrder.SOURCE: event.data.get("source"),
        }
        key = keys.get(self.ordering)
        return None if key is None else f"{self.ordering}:{key}"


def _is_about_endpoints(event: Event, name: str) -> bool:
    """Say whether an event was made by an endpoint: deliveries of it would make more of them."""
    own = event.type.startswith("endpoint.") and event.subject_id == name
    return own or str(event.data.get("source", "")).startswith(SOURCE_PREFIX)


def _is_of_type(type_: str, wanted: str) -> bool:
    family = wanted.removesuffix("*")
    return type_ == wanted or (family != wanted and type_.startswith(family))


def check_fields(fields: EndpointFields) -> EndpointFields:
    """Return the fields of an endpoint with its types in order.

    Raises: ConfigInvalid.
    """
    if not _NAME.fullmatch(fields.name):
        raise ConfigInvalid(
            "the name of an endpoint is 1 to 64 lower-case letters, digits, - and _: billing"
        )
    check_url(fields.url)
    if not 1 <= fields.concurrency <= _MOST_CONCURRENCY:
        raise ConfigInvalid(f"concurrency is a number from 1 to {_MOST_CONCURRENCY}")
    for each in fields.types:
        if not any(_is_of_type(known, each) for known in EventType):
            known = ", ".join(sorted(EventType))
            raise ConfigInvalid(f"there is no such event type; the types are {known}; or send.*")
    return msgspec.structs.replace(fields, types=tuple(sorted(set(fields.types))))


def check_url(url: str) -> None:
    """Refuse what is no address of an endpoint.

    Raises: ConfigInvalid.
    """
    message = "write the URL of an endpoint as https://HOST/PATH, without user name and fragment"
    if not is_single_line(url, _LONGEST_URL) or not url.isascii() or " " in url:
        raise ConfigInvalid(message)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigInvalid(message) from error
    named = bool(parts.hostname) and port != 0
    if parts.scheme not in {"https", "http"} or not named or "@" in parts.netloc or parts.fragment:
        raise ConfigInvalid(message)


def check_secrets(secrets: Sequence[str]) -> tuple[str, ...]:
    """Return the secrets that sign, the newest first.

    Raises: ConfigInvalid.
    """
    if not 1 <= len(secrets) <= _MOST_SECRETS:
        raise ConfigInvalid(f"an endpoint has 1 to {_MOST_SECRETS} secrets")
    if not all(map(_is_secret, secrets)):
        raise ConfigInvalid("write a secret as whsec_ and base64, or leave it out")
    return tuple(secrets)


def _is_secret(text: str) -> bool:
    """Say whether a text is a secret of Standard Webhooks, of at least 16 bytes."""
    encoded = text.removeprefix(_SECRET_PREFIX)
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        return False
    return encoded != text and len(key) >= _SHORTEST_SECRET


class AnswerKind(StrEnum):
    """What an endpoint's answer means."""

    #: it has the event
    ACCEPTED = "accepted"
    #: it wants nothing any more
    GONE = "gone"
    #: it is asked again
    REFUSED = "refused"


_OK, _MULTIPLE_CHOICES, _GONE = 200, 300, 410


def answer_kind(status: int) -> AnswerKind:
    """Return what the status of an answer means; redirects are not followed."""
    if _OK <= status < _MULTIPLE_CHOICES:
        return AnswerKind.ACCEPTED
    return AnswerKind.GONE if status == _GONE else AnswerKind.REFUSED


#: consecutive failures that open the circuit breaker
BREAKER_FAILURES = 5
_FIRST_REST, _LONGEST_REST = 10_000, 600_000


def rest_after(failures: int, random: Callable[[], float]) -> int:
    """Return for how many milliseconds the breaker opens; 0: it stays closed."""
    if failures < BREAKER_FAILURES:
        return 0
    bound = min(_LONGEST_REST, _FIRST_REST * 2 ** min(failures - BREAKER_FAILURES, 10))
    return int(bound * (0.5 + random() / 2))
