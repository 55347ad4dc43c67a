"""Gmail reader: history after a historyId; raw mail by ``messages.get``.

The position is taken before mail is listed, so that mail which arrives meanwhile is listed twice
and never lost. A historyId that Gmail has forgotten (404, after about a week) is a bounded resync
by ``messages.list``. Nothing is changed at Gmail; the scope ``gmail.readonly`` is enough.
See https://developers.google.com/workspace/gmail/api/guides/sync.
"""

import base64
import binascii
import re
import ssl
from urllib.parse import quote, urlencode

import msgspec

from oncebox.core import clock
from oncebox.core.clock import Clock
from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.api_client import (
    AccessTokenSource,
    AnswerTooLarge,
    ApiAnswer,
    ApiClient,
    Credentials,
    check_api_url,
    check_secret,
    host_of,
)
from oncebox.mailboxes.api_reader import (
    ApiReader,
    CursorExpired,
    ListedMail,
    Listing,
    MailGone,
    Since,
)
from oncebox.mailboxes.reader import FetchedMail, MailboxFailure, MailboxProbe

_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND = 400, 403, 404
#: base64 of a mail, and the fields around it
_RAW_OVERHEAD = 65_536
_LABEL = re.compile(r"[!-~]{1,225}")
#: reasons of a 403 that mean "later"
_THROTTLED = frozenset(
    {"rateLimitExceeded", "userRateLimitExceeded", "dailyLimitExceeded", "quotaExceeded"}
)
#: labels of mail that did not arrive
_OWN_LABELS = frozenset({"DRAFT", "CHAT"})


class GmailConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gmail"
):
    """A mailbox at Gmail, by its API."""

    #: the address of the account, or ``me``: that of the token
    user: str = "me"
    #: the label that is read; empty: all mail
    label: str = "INBOX"
    since: Since = "now"
    url: str = "https://gmail.googleapis.com"
    #: a token that never changes, for tests; usually there is a source of tokens
    access_token: str = ""
    ca: str = ""

    @property
    def account(self) -> str:
        """The server and the account, without secrets."""
        return f"{self.user}@{host_of(self.url)}" if self.user == "me" else self.user

    def __repr__(self) -> str:
        return f"GmailConfig({self.account})"


def check_gmail_config(config: GmailConfig) -> None:
    """Check a configuration.

    Raises: ConfigInvalid.
    """
    check_api_url(config.url, has_secret=True, example="https://gmail.googleapis.com")
    check_secret("access token", config.access_token, required=False)
    if not re.fullmatch(r"[!-~]{1,254}", config.user):
        raise ConfigInvalid("the user is an address, or me for the account of the token")
    if config.label and not _LABEL.fullmatch(config.label):
        raise ConfigInvalid("the label is the id of one, such as INBOX or Label_12")


class GmailAt(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a mailbox was read."""

    history: str
    #: the page of a listing that goes on
    page: str = ""
    #: milliseconds: the listing is one of all mail since then, before the history
    listing_since: int | None = None


class _Profile(msgspec.Struct, frozen=True, rename="camel"):
    history_id: str
    messages_total: int = 0


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    label_ids: tuple[str, ...] = ()
    raw: str = ""
    internal_date: str = ""


class _Change(msgspec.Struct, frozen=True, rename="camel"):
    message: _Message
    label_ids: tuple[str, ...] = ()


class _HistoryRecord(msgspec.Struct, frozen=True, rename="camel"):
    messages_added: tuple[_Change, ...] = ()
    labels_added: tuple[_Change, ...] = ()


class _History(msgspec.Struct, frozen=True, rename="camel"):
    history: tuple[_HistoryRecord, ...] = ()
    next_page_token: str = ""
    history_id: str = ""


class _MessageList(msgspec.Struct, frozen=True, rename="camel"):
    messages: tuple[_Message, ...] = ()
    next_page_token: str = ""
    result_size_estimate: int | None = None


class _Reason(msgspec.Struct, frozen=True):
    reason: str = ""


class _ErrorBody(msgspec.Struct, frozen=True):
    errors: tuple[_Reason, ...] = ()


class _ErrorAnswer(msgspec.Struct, frozen=True):
    error: _ErrorBody


class GmailReader(ApiReader[GmailAt]):
    """Reads one label of a mailbox at Gmail."""

    kind = "gmail"

    def __init__(
        self,
        config: GmailConfig,
        *,
        tokens: AccessTokenSource | None = None,
        tls: ssl.SSLContext | None = None,
        now: Clock = clock.system,
    ) -> None:
        """Configure only.

        Raises: ConfigInvalid.
        """
        check_gmail_config(config)
        credentials = Credentials.oauth(tokens, config.access_token, "Gmail")
        client = ApiClient(config.url, credentials, ca=config.ca, tls=tls, now=now)
        super().__init__(client, config.since, now=now)
        self._base = f"{config.url.rstrip('/')}/gmail/v1/users/{quote(config.user, safe='')}"
        self._label = config.label

    def _at_type(self) -> type[GmailAt]:
        return GmailAt

    async def probe(self) -> MailboxProbe:
        """Read the profile."""
        profile = await self._profile()
        return MailboxProbe(capabilities=("history",), mails=profile.messages_total)

    async def begin(self, since: int | None) -> GmailAt:
        """Return the current historyId, and a listing from ``since`` before it."""
        return GmailAt((await self._profile()).history_id, listing_since=since)

    async def list_mails(self, at: GmailAt, most: int) -> Listing[GmailAt]:
        """Return mails of the listing, then of the history."""
        if at.listing_since is not None:
            return await self._list_messages(at, at.listing_since, most)
        return await self._list_history(at, most)

    async def download(self, mail: ListedMail, most: int) -> FetchedMail:
        """Return the raw mail."""
        url = f"{self._base}/messages/{quote(mail.id, safe='')}?format=raw"
        answer = await self._client.exchange("GET", url, most=most * 4 // 3 + _RAW_OVERHEAD)
        if answer.is_gone:
            raise MailGone
        message = self._client.decode(self._checked(answer), _Message)
        try:
            # Gmail leaves the padding out.
            raw = base64.urlsafe_b64decode(message.raw + "=" * (-len(message.raw) % 4))
        except (binascii.Error, ValueError):
            raise MailboxFailure("answer_invalid", reply=answer.status) from None
        if not raw:
            raise MailboxFailure("answer_invalid", reply=answer.status)
        if len(raw) > most:
            raise AnswerTooLarge(answer.status)
        date = message.internal_date
        received_at = int(date) if date.isascii() and date.isdecimal() and len(date) < 16 else None  # noqa: PLR2004
        return FetchedMail(provider_id=mail.id, raw=raw, received_at=received_at)

    async def _profile(self) -> _Profile:
        answer = await self._client.exchange("GET", f"{self._base}/profile")
        return self._client.decode(self._checked(answer), _Profile)

    async def _list_messages(self, at: GmailAt, since: int, most: int) -> Listing[GmailAt]:
        query: list[tuple[str, str]] = [("maxResults", str(most))]
        if self._label:
            query.append(("labelIds", self._label))
        if since:
            query.append(("q", f"after:{since // 1000}"))
        if at.page:
            query.append(("pageToken", at.page))
        answer = await self._client.exchange("GET", f"{self._base}/messages?{urlencode(query)}")
        if answer.status == _BAD_REQUEST and at.page:
            raise CursorExpired
        listed = self._client.decode(self._checked(answer), _MessageList)
        page = listed.next_page_token
        following = GmailAt(at.history, page, since) if page else GmailAt(at.history)
        return Listing(
            mails=tuple(ListedMail(each.id) for each in listed.messages),
            at=following,
            has_more=True,  # the history follows
            remaining=listed.result_size_estimate,
        )

    async def _list_history(self, at: GmailAt, most: int) -> Listing[GmailAt]:
        query = [
            ("startHistoryId", at.history),
            ("historyTypes", "messageAdded"),
            ("historyTypes", "labelAdded"),
            ("maxResults", str(most)),
        ]
        if self._label:
            query.append(("labelId", self._label))
        if at.page:
            query.append(("pageToken", at.page))
        answer = await self._client.exchange("GET", f"{self._base}/history?{urlencode(query)}")
        if answer.status == _BAD_REQUEST and at.page:
            # A page token lives shorter than the history: its pages are listed again.
            return Listing(at=GmailAt(at.history), has_more=True)
        if answer.status in {_BAD_REQUEST, _NOT_FOUND}:
            raise CursorExpired
        found = self._client.decode(self._checked(answer), _History)
        ids = dict.fromkeys(id_ for record in found.history for id_ in self._arrivals(record))
        page = found.next_page_token
        if not page and not found.history_id:
            raise MailboxFailure("answer_invalid", reply=answer.status)
        following = GmailAt(at.history, page) if page else GmailAt(found.history_id)
        return Listing(mails=tuple(map(ListedMail, ids)), at=following, has_more=bool(page))

    def _arrivals(self, record: _HistoryRecord) -> list[str]:
        """Return the ids of mails that came under the label, also from another one."""
        moved = [each for each in record.labels_added if self._label in each.label_ids]
        return [
            each.message.id
            for each in (*record.messages_added, *moved)
            if not _OWN_LABELS.intersection(each.message.label_ids)
            and (not self._label or self._label in each.message.label_ids)
        ]

    def _checked(self, answer: ApiAnswer) -> ApiAnswer:
        """Return an answer that is no limit of Google's, which has the status 403."""
        if answer.status == _FORBIDDEN and _THROTTLED & _reasons(answer):
            wait = self._client.retry_after(answer)
            raise MailboxFailure("throttled", retry_after=wait, reply=answer.status)
        return answer


def _reasons(answer: ApiAnswer) -> set[str]:
    try:
        said = msgspec.json.decode(answer.body, type=_ErrorAnswer)
    except (msgspec.MsgspecError, UnicodeError):
        return set()
    return {each.reason for each in said.error.errors}
