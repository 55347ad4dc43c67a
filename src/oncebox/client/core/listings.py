"""What a list function of the user's returned: items, cursors, times, failures; no I/O."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from oncebox.client.core.calls import parse_retry_after
from oncebox.client.errors import PollMisused
from oncebox.errors import KeyInvalid
from oncebox.mailboxes import overlap as overlaps
from oncebox.mailboxes.overlap import Overlap
from oncebox.model.validation import check_key
from oncebox.schemas.polls import MAX_CURSOR, MAX_MESSAGES, ListedMessage

#: bytes of a body; the service takes a request of one mebibyte, with bodies in base64
MAX_BODY = 700_000
#: bytes of bodies that one request stores, unless a single message has more
_MAX_REQUEST = 500_000
#: a number of seconds above this is one of milliseconds
_MAX_SECONDS = 100_000_000_000
#: seconds; the largest wait that the service takes
_MAX_WAIT = 86_400.0
#: where the time of an item is looked for
_TIMES = ("received_at", "created_at")
#: milliseconds
_SECOND = 1000

ItemFunction = Callable[[Any], Any]


class ItemFunctions(NamedTuple):
    """How an item of the user's becomes a message."""

    #: its id
    key: ItemFunction
    #: bytes, or what is stored as JSON
    body: ItemFunction
    #: when it arrived, by the clock of the API
    time: ItemFunction


class Listing(NamedTuple):
    """The messages of one call of the list function."""

    messages: Sequence[ListedMessage]
    #: JSON
    cursor: str
    #: messages that were listed before, and are not stored again
    repeated: int = 0


def item_key(item: Any) -> Any:
    """Return the id of an item: its field or attribute ``id``."""
    return _field(item, "id", "its id; give Poller a function for it: key=lambda item: …")


def item_time(item: Any) -> Any:
    """Return the time of an item: its field or attribute ``received_at`` or ``created_at``."""
    for name in _TIMES[:-1]:
        if (found := _look_up(item, name)) is not None:
            return found
    return _field(item, _TIMES[-1], "its time; give Poller a function for it: time=lambda item: …")


def item_body(item: Any) -> Any:
    """Return an item as it is."""
    return item


def _field(item: Any, name: str, what: str) -> Any:
    found = _look_up(item, name)
    if found is None:
        raise PollMisused(f"an item of the list function has no {name!r}, which would be {what}")
    return found


def _look_up(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


# answers


def read_by_cursor(answer: Any, cursor: str | None, functions: ItemFunctions) -> Listing:
    """Return the listing of an API with cursors, or of one that lists everything.

    Raises: PollMisused.
    """
    items, after = answer if _is_pair(answer) else (answer, msgspec.UNSET)
    messages = [_message(each, functions) for each in _items(items)]
    text = (cursor or "null") if after is msgspec.UNSET else _encoded_cursor(after)
    return Listing(messages, text)


def read_by_time(
    answer: Any, cursor: str | None, functions: ItemFunctions, *, now: int, window: int
) -> Listing:
    """Return the listing of an API that knows only times; ``now`` and ``window`` in milliseconds.

    Items from before the window are stored too, should the API list any: the service knows all
    that were stored before.

    Raises: PollMisused.
    """
    items = _items(answer)
    before = position(cursor)
    timed = [(_message(each, functions), _milliseconds(functions.time(each))) for each in items]
    fresh, after = overlaps.take(before, [(each.key, at) for each, at in timed], now, window)
    wanted = set(fresh)
    by_key = {each.key: each for each, at in timed if each.key in wanted or at < before.since}
    text = msgspec.json.encode(overlaps.finish(after, window)).decode()
    return Listing(list(by_key.values()), text, repeated=len(timed) - len(by_key))


def position(cursor: str | None) -> Overlap:
    """Return the position in an API that knows only times; the first if there is none yet."""
    try:
        return msgspec.json.decode(cursor or "{}", type=Overlap)
    except msgspec.ValidationError:  # the program used cursors before
        return Overlap()


def since(cursor: str | None) -> datetime | None:
    """Return the time since which the list function lists; None: from the beginning."""
    found = position(cursor).since
    return datetime.fromtimestamp(found / _SECOND, UTC) if found else None


def in_requests(messages: Sequence[ListedMessage]) -> Iterator[list[ListedMessage]]:
    """Yield the messages in parts that fit into a request; an empty part if there are none."""
    part: list[ListedMessage] = []
    size = 0
    for each in messages:
        if part and (len(part) == MAX_MESSAGES or size + len(each.body) > _MAX_REQUEST):
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each.body)
    yield part


def _is_pair(answer: Any) -> bool:
    return isinstance(answer, tuple) and len(answer) == 2  # noqa: PLR2004 - items and cursor


def _items(items: Any) -> list[Any]:
    if isinstance(items, Iterable) and not isinstance(items, (str, bytes, Mapping)):
        return list(items)
    raise PollMisused(
        "the list function returns a list of items, or a tuple of that list and the next cursor"
    )


def _encoded_cursor(cursor: Any) -> str:
    try:
        text = msgspec.json.encode(cursor).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise PollMisused("the next cursor cannot be stored; return text, or other JSON") from error
    if len(text) > MAX_CURSOR:
        raise PollMisused(f"the next cursor has over {MAX_CURSOR} characters; return a shorter one")
    return text


def _message(item: Any, functions: ItemFunctions) -> ListedMessage:
    key = functions.key(item)
    if isinstance(key, bool) or not isinstance(key, (str, int)):
        raise PollMisused("the id of an item is a text or a number; give Poller another key=")
    try:
        check_key(str(key), "id of an item")
    except KeyInvalid as error:
        raise PollMisused(f"{error}; give Poller another key=") from error
    return ListedMessage(key=str(key), body=_encoded_body(functions.body(item)))


def _encoded_body(body: Any) -> bytes:
    try:
        encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise PollMisused(
            "an item cannot be stored; give Poller a function that returns bytes or JSON: "
            "body=lambda item: …"
        ) from error
    if len(encoded) > MAX_BODY:
        raise PollMisused(
            f"an item has over {MAX_BODY} bytes; store its id and what you need of it: "
            "body=lambda item: …"
        )
    return encoded


def _milliseconds(time: Any) -> int:
    """Return a time of an API: a datetime, ISO 8601, or seconds or milliseconds since 1970."""
    try:
        if isinstance(time, str):
            time = datetime.fromisoformat(time)
        if isinstance(time, datetime):
            time = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        seconds = float(time)
        return round(seconds if seconds > _MAX_SECONDS else seconds * _SECOND)
    except (TypeError, ValueError, OverflowError) as error:
        raise PollMisused(
            "the time of an item is a datetime, ISO 8601 text, or a number of seconds; give Poller "
            "a function that returns one: time=lambda item: …"
        ) from error


# failures


def failure_code(error: Exception) -> str:
    """Return a code for an error of the list function, without anything that it says."""
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return "timeout"
    status = _http_status(error)
    return "list_failed" if status is None else f"http_{status}"


def requested_wait(error: Exception) -> float | None:
    """Return the seconds that an API asked for: ``retry_after`` of the error, or the header."""
    given = getattr(error, "retry_after", None)
    if given is None:
        headers = getattr(_response(error), "headers", None)
        text = headers.get("retry-after") if isinstance(headers, Mapping) else None
        given = parse_retry_after(text if isinstance(text, str) else None)
    try:
        seconds = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return min(seconds, _MAX_WAIT) if seconds > 0 else None


def _http_status(error: Exception) -> int | None:
    for holder, name in ((_response(error), "status_code"), (error, "status"), (error, "code")):
        found = getattr(holder, name, None)
        if isinstance(found, int) and 400 <= found <= 599:  # noqa: PLR2004 - HTTP errors
            return found
    return None


def _response(error: Exception) -> Any:
    try:
        return getattr(error, "response", None)
    except RuntimeError:  # httpx, when it has none
        return None
