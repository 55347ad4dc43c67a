"""Microsoft Graph reader: ``messages/delta`` of one folder; raw mail by ``$value``.

The position is the link that Graph gave: nextLink within a round, deltaLink after it. Ids are
immutable, so that a move within the mailbox keeps them. A link that Graph has forgotten (410) is a
bounded resync by the time of reception.
See https://learn.microsoft.com/en-us/graph/delta-query-messages.
"""

import re
import ssl
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from oncebox.core import clock
from oncebox.core.clock import Clock
from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.api_client import (
    AccessTokenSource,
    ApiAnswer,
    ApiClient,
    Credentials,
    check_api_url,
    check_secret,
    host_of,
    mail_bytes,
)
from oncebox.mailboxes.api_reader import (
    CLOCK_SKEW_MS,
    ApiReader,
    CursorExpired,
    ListedMail,
    Listing,
    MailGone,
    Since,
    format_time,
    parse_time,
)
from oncebox.mailboxes.reader import FetchedMail, MailboxFailure, MailboxProbe

_GONE = 410
_FOLDER = re.compile(r"[!-~]{1,512}")
_IMMUTABLE = 'IdType="ImmutableId"'
#: error codes of a link that is no longer known, whatever their status
_EXPIRED = frozenset({"syncstatenotfound", "syncstateinvalid", "resyncrequired"})


class GraphConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="graph"
):
    """A mailbox at Microsoft 365 or Outlook.com, by Microsoft Graph."""

    #: the address or id of the user, or ``me``: that of the token
    user: str = "me"
    #: the id of a folder, or a known name such as ``inbox``
    folder: str = "inbox"
    since: Since = "now"
    url: str = "https://graph.microsoft.com/v1.0"
    #: a token that never changes, for tests; usually there is a source of tokens
    access_token: str = ""
    ca: str = ""

    @property
    def account(self) -> str:
        """The server and the account, without secrets."""
        return f"{self.user}@{host_of(self.url)}" if self.user == "me" else self.user

    def __repr__(self) -> str:
        return f"GraphConfig({self.account})"


def check_graph_config(config: GraphConfig) -> None:
    """Check a configuration.

    Raises: ConfigInvalid.
    """
    check_api_url(config.url, has_secret=True, example="https://graph.microsoft.com/v1.0")
    check_secret("access token", config.access_token, required=False)
    if not re.fullmatch(r"[!-~]{1,254}", config.user):
        raise ConfigInvalid("the user is an address, or me for the account of the token")
    if not _FOLDER.fullmatch(config.folder):
        raise ConfigInvalid("the folder is the id of one, or a known name such as inbox")


class GraphAt(msgspec.Struct, frozen=True):
    """How far a folder was read: a link of Graph's, or of the first request."""

    link: str


class _Item(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    received_date_time: str = ""
    is_draft: bool = False
    removed: dict[str, Any] | None = msgspec.field(default=None, name="@removed")


class _Delta(msgspec.Struct, frozen=True):
    value: tuple[_Item, ...]
    next_link: str = msgspec.field(default="", name="@odata.nextLink")
    delta_link: str = msgspec.field(default="", name="@odata.deltaLink")


class _Folder(msgspec.Struct, frozen=True, rename="camel"):
    total_item_count: int | None = None


class _ErrorBody(msgspec.Struct, frozen=True):
    code: str = ""


class _ErrorAnswer(msgspec.Struct, frozen=True):
    error: _ErrorBody


class GraphReader(ApiReader[GraphAt]):
    """Reads one folder of a mailbox at Microsoft."""

    kind = "graph"

    def __init__(
        self,
        config: GraphConfig,
        *,
        tokens: AccessTokenSource | None = None,
        tls: ssl.SSLContext | None = None,
        now: Clock = clock.system,
    ) -> None:
        """Configure only.

        Raises: ConfigInvalid.
        """
        check_graph_config(config)
        credentials = Credentials.oauth(tokens, config.access_token, "Microsoft Graph")
        client = ApiClient(config.url, credentials, ca=config.ca, tls=tls, now=now)
        super().__init__(client, config.since, now=now)
        user = "me" if config.user == "me" else f"users/{quote(config.user, safe='')}"
        self._base = f"{config.url.rstrip('/')}/{user}"
        self._folder = f"{self._base}/mailFolders/{quote(config.folder, safe='')}"

    def _at_type(self) -> type[GraphAt]:
        return GraphAt

    async def probe(self) -> MailboxProbe:
        """Read what the folder says of itself."""
        folder = await self._client.get_json(self._folder, _Folder)
        return MailboxProbe(capabilities=("delta", "immutable-ids"), mails=folder.total_item_count)

    async def begin(self, since: int | None) -> GraphAt:
        """Return the first link of a round; Graph keeps its options for all that follow."""
        if since is None:
            since = max(0, self._now() - CLOCK_SKEW_MS)
        # Read and moved mails are changes, too.
        query = {"$select": "id,receivedDateTime,isDraft", "changeType": "created"}
        if since:
            query["$filter"] = f"receivedDateTime ge {format_time(since)}"
        return GraphAt(f"{self._folder}/messages/delta?{urlencode(query)}")

    async def list_mails(self, at: GraphAt, most: int) -> Listing[GraphAt]:
        """Return the mails of the next page of a round."""
        prefer = f"{_IMMUTABLE}, odata.maxpagesize={most}"
        answer = await self._client.exchange("GET", at.link, headers={"prefer": prefer})
        if answer.status == _GONE or (not answer.is_ok and _error_code(answer) in _EXPIRED):
            raise CursorExpired
        delta = self._client.decode(answer, _Delta)
        link = delta.next_link or delta.delta_link
        if not link:
            raise MailboxFailure("answer_invalid", reply=answer.status)
        mails = [
            ListedMail(each.id, parse_time(each.received_date_time))
            for each in delta.value
            if each.removed is None and not each.is_draft
        ]
        return Listing(
            mails=tuple(mails),
            at=GraphAt(self._client.link(link)),
            has_more=bool(delta.next_link),
        )

    async def download(self, mail: ListedMail, most: int) -> FetchedMail:
        """Return the MIME content."""
        url = f"{self._base}/messages/{quote(mail.id, safe='')}/$value"
        headers = {"accept": "*/*", "prefer": _IMMUTABLE}
        answer = await self._client.exchange("GET", url, most=most, headers=headers)
        if answer.is_gone:
            raise MailGone
        raw = mail_bytes(self._client.accepted(answer))
        return FetchedMail(provider_id=mail.id, raw=raw, received_at=mail.received_at)


def _error_code(answer: ApiAnswer) -> str:
    try:
        return msgspec.json.decode(answer.body, type=_ErrorAnswer).error.code.lower()
    except (msgspec.MsgspecError, UnicodeError):
        return ""
