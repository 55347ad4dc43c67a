"""JMAP reader: changes after a state, mail by blob download, push by EventSource.

The state is taken before mail is queried, so that mail which arrives meanwhile is listed twice and
never lost. ``cannotCalculateChanges`` is a bounded query. See RFC 8620 and RFC 8621.
"""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from oncebox.core import clock
from oncebox.core.clock import Clock
from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.api_client import (
    AccessTokenSource,
    ApiClient,
    Credentials,
    check_api_url,
    check_hosts,
    check_secret,
    host_of,
    mail_bytes,
)
from oncebox.mailboxes.api_reader import (
    ApiReader,
    CursorExpired,
    ListedMail,
    Listing,
    MailGone,
    Since,
    format_time,
    parse_time,
)
from oncebox.mailboxes.event_source import EventSource
from oncebox.mailboxes.reader import (
    FetchedMail,
    MailboxFailure,
    MailboxPage,
    MailboxProbe,
    PageLimits,
)

T = TypeVar("T")

_CORE = "urn:ietf:params:jmap:core"
_MAIL = "urn:ietf:params:jmap:mail"
_PROPERTIES = ("id", "blobId", "mailboxIds", "receivedAt", "size", "keywords")
#: changes of one listing, most of which are no new mail
_MAX_CHANGES = 500
#: seconds between signs of life of the push channel
_PING = 30
#: signs without mail in a row; later ones are delayed
_TRUSTED_SIGNS = 3
_MAX_SIGN_DELAY = 60.0
#: hosts of links, by the host of the session
_KNOWN_HOSTS = {"api.fastmail.com": ("www.fastmailusercontent.com",)}
#: errors of methods, as codes, and whether they last until the configuration changes
_METHOD_ERRORS = {
    "accountNotFound": ("not_found", True),
    "accountNotSupportedByMethod": ("not_found", True),
    "forbidden": ("login_refused", True),
    "serverUnavailable": ("server_error", False),
    "serverFail": ("server_error", False),
    "serverPartialFail": ("server_error", False),
}


class JmapConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="jmap"):
    """A mailbox on a JMAP server."""

    #: the session resource, such as ``https://api.fastmail.com/jmap/session``
    url: str
    username: str = ""
    #: a password with a user name, or else an API token, or a source of access tokens
    password: str = ""
    api_token: str = ""
    #: a role such as ``inbox``, a name, or an id; empty: all mail
    folder: str = "inbox"
    #: empty: the account for mail that the session names first
    account_id: str = ""
    since: Since = "now"
    #: further hosts that links of the session may name
    hosts: tuple[str, ...] = ()
    ca: str = ""

    @property
    def account(self) -> str:
        """The server and the account, without secrets."""
        who = self.username or self.account_id
        return f"{who}@{host_of(self.url)}" if who else host_of(self.url)

    def __repr__(self) -> str:
        return f"JmapConfig({self.account})"


def check_jmap_config(config: JmapConfig) -> None:
    """Check a configuration.

    Raises: ConfigInvalid.
    """
    check_api_url(config.url, has_secret=True, example="https://api.fastmail.com/jmap/session")
    check_secret("password", config.password, required=bool(config.username))
    check_secret("API token", config.api_token, required=False)
    check_hosts(config.hosts)
    if ":" in config.username or not (config.username + "x").isprintable():
        raise ConfigInvalid("a user name of a JMAP server has no colon and no control characters")
    if config.password and config.api_token:
        raise ConfigInvalid("give either a password or an API token")


class JmapQuery(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far mail was listed by its time of reception."""

    #: milliseconds
    since: int
    #: the last mail that was listed, and its time
    anchor: str = ""
    anchor_at: int = 0


class JmapAt(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a mailbox was read."""

    state: str
    query: JmapQuery | None = None


class _Session(msgspec.Struct, frozen=True, rename="camel"):
    api_url: str
    download_url: str
    capabilities: dict[str, Any]
    primary_accounts: dict[str, str]
    accounts: dict[str, Any]
    event_source_url: str = ""


class _Error(msgspec.Struct, frozen=True):
    type: str = ""


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    method_responses: tuple[tuple[str, msgspec.Raw, str], ...]


class _Changes(msgspec.Struct, frozen=True, rename="camel"):
    new_state: str
    has_more_changes: bool
    created: tuple[str, ...] = ()


class _Query(msgspec.Struct, frozen=True, rename="camel"):
    ids: tuple[str, ...]
    total: int | None = None


class _Email(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    blob_id: str
    size: int
    received_at: str = ""
    mailbox_ids: dict[str, bool] = {}
    keywords: dict[str, bool] = {}


class _Emails(msgspec.Struct, frozen=True, rename="camel"):
    state: str
    list: tuple[_Email, ...]


class _Folder(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    name: str
    role: str | None = None
    total_emails: int | None = None


class _Folders(msgspec.Struct, frozen=True):
    list: tuple[_Folder, ...]


class _MethodFailed(Exception):
    """A method was answered by an error."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class JmapReader(ApiReader[JmapAt]):
    """Reads one folder of an account on a JMAP server."""

    kind = "jmap"

    def __init__(
        self,
        config: JmapConfig,
        *,
        tokens: AccessTokenSource | None = None,
        tls: ssl.SSLContext | None = None,
        now: Clock = clock.system,
        ping: int = _PING,
    ) -> None:
        """Configure only; the push channel has a sign of life each ``ping`` seconds.

        Raises: ConfigInvalid.
        """
        check_jmap_config(config)
        credentials = Credentials.bearer(config.api_token)
        if tokens is not None:
            credentials = Credentials(tokens=tokens)
        elif config.username:
            credentials = Credentials.basic(config.username, config.password)
        elif not config.api_token:
            raise ConfigInvalid(
                "a JMAP server needs a user name and password, an API token, or a source of tokens"
            )
        hosts = (*config.hosts, *_KNOWN_HOSTS.get(host_of(config.url), ()))
        client = ApiClient(config.url, credentials, hosts=hosts, ca=config.ca, tls=tls, now=now)
        super().__init__(client, config.since, now=now)
        self._config = config
        self._ping = ping
        self._session: _Session | None = None
        self._folder_id = ""
        self._push: EventSource | None = None
        #: the state up to which the last page was read
        self._state_read = ""
        #: the last state that the server gave
        self._last_state = ""
        self._empty_signs = 0

    def _at_type(self) -> type[JmapAt]:
        return JmapAt

    # MailboxReader

    async def fetch(self, cursor: str | None, limits: PageLimits) -> MailboxPage:
        """Return the mails after a cursor; see `MailboxReader.fetch`."""
        try:
            page = await super().fetch(cursor, limits)
        except MailboxFailure as failure:
            if failure.code == "not_found":
                self._session = None  # its URLs may have changed
            raise
        if page.mails or page.skipped:
            self._empty_signs = 0
        return page

    async def wait(self, seconds: float) -> bool:
        """Wait for the push channel, if there is one; see `MailboxReader.wait`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + max(0.0, seconds)
        push = await self._event_source()
        if push is None or not push.is_usable:
            return await super().wait(seconds)
        if not push.is_open and await push.open(max(0.0, min(self._client.within, seconds))):
            # What changed before the channel was open is not reported by it.
            state = await self._current_state()
            if self._state_read and state != self._state_read:
                return await self._sign(until)
        if await push.wait(until - loop.time()):
            return await self._sign(until)
        # A channel that fails leaves the rest of the time to polling.
        await asyncio.sleep(max(0.0, until - loop.time()))
        return False

    async def probe(self) -> MailboxProbe:
        """Read the session and the list of folders."""
        session = await self._connected()
        folders = await self._folders()
        chosen = self._chosen(folders)
        capabilities = [
            *session.capabilities,
            *(["eventsource"] if session.event_source_url else []),
        ]
        total = sum(each.total_emails or 0 for each in ([chosen] if chosen else folders))
        return MailboxProbe(
            capabilities=tuple(sorted(capabilities)),
            folders=tuple(sorted(each.name for each in folders)),
            mails=total,
        )

    async def close(self) -> None:
        """Close the push channel and the connections."""
        if self._push is not None:
            await self._push.close()
            self._push = None
        await super().close()

    # listings

    async def begin(self, since: int | None) -> JmapAt:
        """Return the current state, and a query from ``since`` before it."""
        state = await self._current_state()
        return JmapAt(state, None if since is None else JmapQuery(since))

    async def list_mails(self, at: JmapAt, most: int) -> Listing[JmapAt]:
        """Return mails of the query, then of the changes."""
        if at.query is not None:
            return await self._list_query(at, at.query, most)
        return await self._list_changes(at)

    async def _list_changes(self, at: JmapAt) -> Listing[JmapAt]:
        calls = [
            ("Email/changes", {"sinceState": at.state, "maxChanges": await self._max_objects()}),
            ("Email/get", _get_results_of("Email/changes", "/created")),
        ]
        try:
            answers = await self._call(calls)
        except _MethodFailed as failed:
            # A state that was never one is also refused by another word.
            foreign = failed.kind == "invalidArguments" and at.state != self._last_state
            if failed.kind == "cannotCalculateChanges" or foreign:
                raise CursorExpired from None
            raise _method_failure(failed.kind) from None
        changes = _decode(answers[0], _Changes)
        emails = _decode(answers[1], _Emails)
        self._state_read = self._last_state = changes.new_state
        return Listing(
            mails=self._listed_mails(emails.list, await self._folder()),
            at=JmapAt(changes.new_state),
            has_more=changes.has_more_changes,
        )

    async def _list_query(self, at: JmapAt, query: JmapQuery, most: int) -> Listing[JmapAt]:
        folder = await self._folder()
        wanted: dict[str, Any] = {"inMailbox": folder} if folder else {}
        if query.since:
            wanted["after"] = format_time(query.since)
        arguments: dict[str, Any] = {
            "filter": wanted or None,
            "sort": [{"property": "receivedAt", "isAscending": True}],
            "limit": min(most, await self._max_objects()),
            "calculateTotal": not query.anchor,
        }
        if query.anchor:
            arguments |= {"anchor": query.anchor, "anchorOffset": 1}
        calls = [("Email/query", arguments), ("Email/get", _get_results_of("Email/query", "/ids"))]
        try:
            answers = await self._call(calls)
        except _MethodFailed as failed:
            if failed.kind == "anchorNotFound" and query.anchor:
                # The mail is gone: those of its second are listed again.
                again = JmapAt(at.state, JmapQuery(query.anchor_at))
                return Listing(at=again, has_more=True)
            raise _method_failure(failed.kind) from None
        found = _decode(answers[0], _Query)
        if not found.ids:
            return Listing(at=JmapAt(at.state), has_more=True)  # the changes follow
        mails = self._listed_mails(_decode(answers[1], _Emails).list, folder)
        last = max((each.received_at or 0 for each in mails), default=query.anchor_at)
        following = JmapQuery(query.since, found.ids[-1], max(last, query.since))
        return Listing(
            mails=mails, at=JmapAt(at.state, following), has_more=True, remaining=found.total
        )

    def _listed_mails(self, emails: Sequence[_Email], folder: str) -> tuple[ListedMail, ...]:
        return tuple(
            ListedMail(each.id, parse_time(each.received_at), each.size, each.blob_id)
            for each in emails
            if (not folder or each.mailbox_ids.get(folder)) and not each.keywords.get("$draft")
        )

    async def download(self, mail: ListedMail, most: int) -> FetchedMail:
        """Return the blob of a mail."""
        session = await self._connected()
        url = _expanded(
            session.download_url,
            accountId=self._account_id(session),
            blobId=mail.reference,
            type="message/rfc822",
            name="mail.eml",
        )
        answer = await self._client.exchange("GET", url, most=most, headers={"accept": "*/*"})
        if answer.is_gone:
            raise MailGone
        raw = mail_bytes(self._client.accepted(answer))
        return FetchedMail(provider_id=mail.id, raw=raw, received_at=mail.received_at)

    # session

    async def _connected(self) -> _Session:
        if self._session is None:
            self._session = await self._client.get_json(self._client.url, _Session)
            if _MAIL not in self._session.capabilities:
                self._session = None
                raise MailboxFailure("mail_unsupported", needs_operator=True)
        return self._session

    def _account_id(self, session: _Session) -> str:
        id_ = self._config.account_id or session.primary_accounts.get(_MAIL, "")
        if id_ not in session.accounts:
            raise MailboxFailure("not_found", needs_operator=True)
        return id_

    async def _max_objects(self) -> int:
        core = (await self._connected()).capabilities.get(_CORE)
        most = core.get("maxObjectsInGet") if isinstance(core, dict) else None
        return min(most, _MAX_CHANGES) if isinstance(most, int) and most > 0 else _MAX_CHANGES

    async def _current_state(self) -> str:
        answers = await self._call_checked([("Email/get", {"ids": []})])
        self._last_state = _decode(answers[0], _Emails).state
        return self._last_state

    async def _folders(self) -> tuple[_Folder, ...]:
        wanted = {"ids": None, "properties": ["id", "name", "role", "totalEmails"]}
        return _decode((await self._call_checked([("Mailbox/get", wanted)]))[0], _Folders).list

    async def _folder(self) -> str:
        """Return the id of the folder that is read; empty: all mail."""
        if self._config.folder and not self._folder_id:
            chosen = self._chosen(await self._folders())
            if chosen is None:
                raise MailboxFailure("folder_missing", needs_operator=True)
            self._folder_id = chosen.id
        return self._folder_id

    def _chosen(self, folders: Sequence[_Folder]) -> _Folder | None:
        name = self._config.folder
        by_role = [each for each in folders if each.role and each.role == name.lower()]
        by_name = [each for each in folders if name in {each.name, each.id}]
        return next(iter([*by_role, *by_name]), None)

    async def _call_checked(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[msgspec.Raw]:
        try:
            return await self._call(calls)
        except _MethodFailed as failed:
            raise _method_failure(failed.kind) from None

    async def _call(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[msgspec.Raw]:
        """Call methods in one request; return their answers in order.

        Raises: _MethodFailed, MailboxFailure.
        """
        session = await self._connected()
        account = {"accountId": self._account_id(session)}
        asked = {
            "using": [_CORE, _MAIL],
            "methodCalls": [
                [name, account | arguments, str(number)]
                for number, (name, arguments) in enumerate(calls)
            ],
        }
        answer = await self._client.exchange(
            "POST",
            session.api_url,
            body=msgspec.json.encode(asked),
            headers={"content-type": "application/json"},
        )
        responses = self._client.decode(answer, _Answer).method_responses
        found = {number: (name, said) for name, said, number in reversed(responses)}
        answers = []
        for number, (name, _) in enumerate(calls):
            answered, said = found.get(str(number), ("", msgspec.Raw(b"{}")))
            if answered == "error":
                raise _MethodFailed(_decode(said, _Error).type)
            if answered != name:
                raise MailboxFailure("answer_invalid", reply=answer.status)
            answers.append(said)
        return answers

    # push

    async def _event_source(self) -> EventSource | None:
        session = await self._connected()
        if self._push is None and session.event_source_url:
            url = _expanded(
                session.event_source_url, types="Email", closeafter="no", ping=str(self._ping)
            )
            try:
                link = self._client.link(url)
            except MailboxFailure:
                return None
            account = self._account_id(session)
            self._push = EventSource(self._client, link, account, ping=self._ping)
        return self._push

    async def _sign(self, until: float) -> bool:
        """Report news; a server that announces what is not there costs one listing at a time."""
        self._empty_signs += 1
        extra = self._empty_signs - _TRUSTED_SIGNS
        if extra > 0:
            loop = asyncio.get_running_loop()
            delay = min(_MAX_SIGN_DELAY, 2.0 ** min(extra, 10) / 4)
            await asyncio.sleep(max(0.0, min(delay, until - loop.time())))
        return True


def _get_results_of(method: str, path: str) -> dict[str, Any]:
    reference = {"resultOf": "0", "name": method, "path": path}
    return {"#ids": reference, "properties": list(_PROPERTIES)}


def _decode(said: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(said, type=kind)
    except (msgspec.MsgspecError, UnicodeError):
        raise MailboxFailure("answer_invalid") from None


def _method_failure(kind: str) -> MailboxFailure:
    code, lasts = _METHOD_ERRORS.get(kind, ("request_refused", True))
    return MailboxFailure(code, needs_operator=lasts)


def _expanded(template: str, **values: str) -> str:
    """Return a URI template of level 1 with its variables (RFC 6570)."""
    for name, value in values.items():
        template = template.replace("{" + name + "}", quote(value, safe=""))
    return template
