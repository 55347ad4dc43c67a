"""Reader of inbox APIs that are described by tables."""

import ssl
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from oncebox.core import clock
from oncebox.core.clock import Clock
from oncebox.mailboxes.api_client import (
    ApiAnswer,
    ApiClient,
    Credentials,
    decode_json,
    mail_bytes,
)
from oncebox.mailboxes.api_reader import (
    CLOCK_SKEW_MS,
    LAST_MS,
    ApiReader,
    CursorExpired,
    ListedMail,
    Listing,
    MailGone,
    format_time,
    parse_time,
)
from oncebox.mailboxes.inbox_apis import InboxApi, RestConfig, rest_table
from oncebox.mailboxes.json_mail import addresses_of, compose_json_mail, text_at, value_at
from oncebox.mailboxes.overlap import Overlap, finish, take
from oncebox.mailboxes.reader import FetchedMail, MailboxFailure, MailboxProbe

_TOO_MANY = 429
#: answers to a cursor that the server does not know
_EXPIRED = frozenset({400, 404, 410, 422})
#: numbers above are milliseconds since 1970
_SECONDS_UNTIL = 100_000_000_000
_MAX_CURSOR_LENGTH = 4096
#: a parameter of whole seconds, exclusive or not, is asked so many milliseconds earlier
_ROUNDING_MS = 1000


class RestAt(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a list was read."""

    #: the API's own cursor; empty: from the beginning
    cursor: str = ""
    #: milliseconds: mail from before is not read
    since: int = 0
    #: the position of an API without cursors
    overlap: Overlap | None = None
    #: the next page of a listing that goes on
    page: str = ""


class RestReader(ApiReader[RestAt]):
    """Reads an inbox behind an API; nothing is changed there."""

    kind = "rest"

    def __init__(
        self, config: RestConfig, *, tls: ssl.SSLContext | None = None, now: Clock = clock.system
    ) -> None:
        """Configure only.

        Raises: ConfigInvalid.
        """
        table = rest_table(config)
        client = ApiClient(
            config.base_url,
            _credentials(config, table),
            hosts=(*table.hosts, *config.hosts),
            ca=config.ca,
            tls=tls,
            now=now,
        )
        super().__init__(client, config.since, now=now)
        self._table = table
        self._config = config
        self._window = round(config.overlap * 1000)

    def _at_type(self) -> type[RestAt]:
        return RestAt

    async def probe(self) -> MailboxProbe:
        """List one message."""
        answer = await self._get_list({}, 1)
        self._items(answer)
        return MailboxProbe(capabilities=(self._config.api, self._table.position))

    async def begin(self, since: int | None) -> RestAt:
        """Return the position before all mail since a time; by the server's clock."""
        if since is None:
            answer = await self._get_list({}, 1)
            self._items(answer)
            since = max(0, self._time_of(answer) - CLOCK_SKEW_MS)
        if self._table.position == "cursor":
            return RestAt(since=since)
        return RestAt(overlap=Overlap(since=since))

    async def list_mails(self, at: RestAt, most: int) -> Listing[RestAt]:
        """Return messages after a position."""
        if self._table.paging == "number":
            # A page number means the same only while pages have the same size.
            most = self._table.page_size
        most = min(most, self._table.page_size)
        if at.overlap is not None:
            return await self._list_since(at, at.overlap, most)
        return await self._list_after(at, most)

    async def download(self, mail: ListedMail, most: int) -> FetchedMail:
        """Return a message as MIME."""
        url = self._url(self._table.message_path, id_=mail.id)
        is_raw = self._table.body == "raw"
        headers = {"accept": "*/*" if is_raw else "application/json"}
        # Text of JSON is escaped.
        limit = most if is_raw else most * 2
        answer = await self._client.exchange("GET", url, most=limit, headers=headers)
        if answer.is_gone:
            raise MailGone
        self._accepted(answer)
        if is_raw:
            raw = mail_bytes(answer)
        elif self._table.body == "link":
            raw = await self._follow(decode_json(answer, Any), most)
        else:
            raw = self._composed(decode_json(answer, Any), mail)
        recipients = addresses_of(msgspec.json.decode(mail.reference or "[]"))
        return FetchedMail(
            provider_id=mail.id, raw=raw, received_at=mail.received_at, recipients=recipients
        )

    async def _follow(self, said: Any, most: int) -> bytes:
        """Download by the link of an answer; it is signed, so the key is not sent with it."""
        link = value_at(said, self._table.link)
        if not isinstance(link, str):
            raise MailboxFailure("answer_invalid")
        answer = await self._client.exchange(
            "GET", link, most=most, headers={"accept": "*/*"}, authorized=False
        )
        if answer.is_gone:
            raise MailGone
        return mail_bytes(self._accepted(answer))

    def _composed(self, said: Any, mail: ListedMail) -> bytes:
        if not isinstance(said, dict):
            raise MailboxFailure("answer_invalid")
        fallback = f"{self._client.url} {mail.id}"
        return compose_json_mail(
            said, self._table.fields, fallback_id=fallback, date=mail.received_at or 0
        )

    # lists

    async def _list_after(self, at: RestAt, most: int) -> Listing[RestAt]:
        """List by the API's own cursor."""
        table = self._table
        query = {table.cursor_query: at.cursor} if at.cursor else {}
        answer = await self._get_list(query, most, expires=bool(at.cursor))
        items = self._items(answer)
        said: Any = items[-1] if table.item_cursor and items else None
        path = table.item_cursor
        if table.next_cursor:
            said, path = decode_json(answer, Any), table.next_cursor
        cursor = text_at(said, path)
        if len(cursor) > _MAX_CURSOR_LENGTH:
            raise MailboxFailure("answer_invalid", reply=answer.status)
        mails = [
            each for each in map(self._to_listed, items) if (each.received_at or 0) >= at.since
        ]
        moved = bool(cursor) and cursor != at.cursor
        return Listing(
            mails=tuple(mails),
            at=RestAt(cursor=cursor or at.cursor, since=at.since),
            has_more=bool(items) and moved,
        )

    async def _list_since(self, at: RestAt, overlap: Overlap, most: int) -> Listing[RestAt]:
        """List a page of what is new since a time."""
        table = self._table
        query: dict[str, str] = {}
        if table.since_query and overlap.since:
            query[table.since_query] = _formatted(
                max(0, overlap.since - _ROUNDING_MS), table.since_format
            )
        page = at.page or ("" if table.paging == "token" else str(self._first_page()))
        if table.paging != "none" and page:
            query[table.page_query] = page
        try:
            answer = await self._get_list(query, most, expires=bool(at.page))
        except CursorExpired:
            if table.paging == "token":  # the listing begins again; what it gave is known
                return Listing(at=RestAt(overlap=overlap), has_more=True)
            return Listing(at=RestAt(overlap=finish(overlap, self._window)))
        items = self._items(answer)
        listed = {each.id: each for each in map(self._to_listed, items)}
        times = [each.received_at or 0 for each in listed.values()]
        fresh, overlap = take(
            overlap, [(id_, each.received_at or 0) for id_, each in listed.items()],
            self._time_of(answer), self._window,
        )  # fmt: skip
        following = self._next_page(answer, items, page, times, overlap.since, most)
        if following:
            after = RestAt(overlap=overlap, page=following)
        else:
            after = RestAt(overlap=finish(overlap, self._window))
        return Listing(
            mails=tuple(listed[id_] for id_ in fresh), at=after, has_more=bool(following)
        )

    def _time_of(self, answer: ApiAnswer) -> int:
        """Return the server's time; while its clock is far ahead, no position follows it."""
        now = self._now()
        return min(answer.date or now, now + CLOCK_SKEW_MS)

    def _first_page(self) -> int:
        return 0 if self._table.paging == "offset" else self._table.first_page

    def _next_page(
        self,
        answer: ApiAnswer,
        items: list[Any],
        page: str,
        times: list[int],
        since: int,
        most: int,
    ) -> str:
        """Return the next page; empty after the last one that can have new mail."""
        table = self._table
        if table.order == "newest_first" and times and min(times) < since:
            return ""
        if table.paging == "token":
            token = text_at(decode_json(answer, Any), table.next_page)
            if len(token) > _MAX_CURSOR_LENGTH:
                raise MailboxFailure("answer_invalid", reply=answer.status)
            return token if items and token != page else ""
        if table.paging == "none" or len(items) < most:
            return ""
        return str(int(page) + (len(items) if table.paging == "offset" else 1))

    async def _get_list(
        self, query: dict[str, str], most: int, *, expires: bool = False
    ) -> ApiAnswer:
        fixed = {
            name: value.replace("{inbox}", self._config.inbox).replace("{limit}", str(most))
            for name, value in self._table.list_query.items()
        }
        url = self._url(self._table.list_path)
        if fixed or query:
            url += f"?{urlencode(fixed | query)}"
        answer = await self._client.exchange("GET", url)
        if expires and answer.status in _EXPIRED:
            raise CursorExpired
        return self._accepted(answer)

    def _accepted(self, answer: ApiAnswer) -> ApiAnswer:
        if answer.status == _TOO_MANY:
            wait = self._client.retry_after(answer, self._table.retry_header)
            if wait is None:
                wait = self._client.retry_after(answer)
            raise MailboxFailure("throttled", retry_after=wait, reply=answer.status)
        return self._client.accepted(answer)

    def _items(self, answer: ApiAnswer) -> list[Any]:
        found = value_at(decode_json(answer, Any), self._table.items)
        if not isinstance(found, list):
            raise MailboxFailure("answer_invalid", reply=answer.status)
        return found

    def _to_listed(self, item: Any) -> ListedMail:
        """Return what a list says of a message."""
        id_, at = text_at(item, self._table.id), _time(value_at(item, self._table.time))
        if not id_ or at is None:
            raise MailboxFailure("answer_invalid")
        size = value_at(item, self._table.size) if self._table.size else None
        known = size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None
        named = value_at(item, self._table.recipients) if self._table.recipients else None
        addresses = msgspec.json.encode(addresses_of(named)).decode() if named else ""
        return ListedMail(id_, at, known, addresses)

    def _url(self, path: str, id_: str = "") -> str:
        path = path.replace("{inbox}", quote(self._config.inbox, safe=""))
        return self._client.url + path.replace("{id}", quote(id_, safe=""))


def _credentials(config: RestConfig, table: InboxApi) -> Credentials:
    if table.auth == "none" or not config.key:
        return Credentials()
    if table.auth == "basic":
        # Without a user name the key takes its place.
        user, password = (config.username, config.key) if config.username else (config.key, "")
        return Credentials.basic(user, password)
    if table.auth == "header":
        return Credentials((table.auth_header, config.key))
    return Credentials.bearer(config.key)


def _time(value: Any) -> int | None:
    if isinstance(value, str):
        return parse_time(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:  # noqa: PLR2004
        return None
    return min(round(value * 1000 if value < _SECONDS_UNTIL else value), LAST_MS)


def _formatted(at: int, form: str) -> str:
    if form == "iso":
        return format_time(at)
    return str(at // 1000 if form == "seconds" else at)
