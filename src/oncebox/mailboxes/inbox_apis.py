"""Inbox APIs as tables: how each lists messages, gives one, authorizes and limits requests."""

import re
from typing import Annotated, Literal

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.api_client import check_api_url, check_hosts, check_secret, host_of
from oncebox.mailboxes.api_reader import Since
from oncebox.mailboxes.json_mail import JsonFields

GENERIC = "generic-rest"
_PATH = re.compile(
    r"(?:[A-Za-z_@][A-Za-z0-9_@-]*|[0-9]+)(?:\.(?:[A-Za-z_@][A-Za-z0-9_@-]*|[0-9]+))*"
)
_NAME = re.compile(r"[A-Za-z0-9_$.\[\]-]{1,64}")
_URL_PATH = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@/%-]|\{(?:inbox|id)\})*")
_QUERY_VALUE = re.compile(r"(?:[ -z|~]|\{(?:inbox|limit)\}){0,256}")
_HEADER = re.compile(r"[a-z0-9-]{1,64}")
_INBOX = re.compile(r"[!-~]{1,512}")

Dotted = str


class InboxApi(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one API is read. Fields of answers are dotted names such as ``data.items``."""

    #: the path of the list; ``{inbox}`` is that of the configuration
    list_path: str
    #: fixed parameters; ``{limit}`` is the size of a page
    list_query: dict[str, str] = {}
    #: where the answer has the list; empty: it is one
    items: Dotted = ""
    id: Dotted = "id"
    #: when a message was received: ISO 8601, or seconds or milliseconds since 1970
    time: Dotted
    size: Dotted = ""
    recipients: Dotted = ""
    #: ``cursor``: the API continues after a value of its own, also later; ``since``: after a time
    position: Literal["cursor", "since"]
    #: the parameter of the cursor, and where its next value is: in the answer or in each item
    cursor_query: str = "cursor"
    next_cursor: Dotted = ""
    item_cursor: Dotted = ""
    #: the parameter of the time; empty: the list cannot be filtered
    since_query: str = ""
    since_format: Literal["iso", "seconds", "milliseconds"] = "iso"
    order: Literal["newest_first", "oldest_first"] = "newest_first"
    #: how the list goes on: by a token of the answer, by page number, by offset
    paging: Literal["none", "token", "number", "offset"] = "none"
    page_query: str = ""
    next_page: Dotted = ""
    first_page: Annotated[int, msgspec.Meta(ge=0, le=1)] = 0
    page_size: Annotated[int, msgspec.Meta(ge=1, le=200)] = 100
    #: the path of a message; ``{id}`` is its id
    message_path: str
    #: MIME, JSON, or JSON with a link to the MIME
    body: Literal["raw", "json", "link"] = "raw"
    link: Dotted = ""
    fields: JsonFields = JsonFields()
    auth: Literal["bearer", "basic", "header", "none"] = "bearer"
    auth_header: str = "x-api-key"
    #: says when to ask again after a 429: seconds, a date, or seconds since 1970
    retry_header: str = "retry-after"
    #: hosts that links may name, beside that of the URL
    hosts: tuple[str, ...] = ()


class KnownApi(msgspec.Struct, frozen=True, kw_only=True):
    """A table that we ship."""

    title: str
    #: empty: the operator's own server
    url: str
    table: InboxApi
    #: the key may be left out
    auth_optional: bool = False


KNOWN_APIS = {
    "agentmail": KnownApi(
        title="AgentMail",
        url="https://api.agentmail.to",
        table=InboxApi(
            list_path="/v0/inboxes/{inbox}/messages",
            list_query={"limit": "{limit}", "ascending": "true"},
            items="messages",
            id="message_id",
            time="timestamp",
            size="size",
            recipients="to",
            position="since",
            since_query="after",
            order="oldest_first",
            paging="token",
            page_query="page_token",
            next_page="next_page_token",
            message_path="/v0/inboxes/{inbox}/messages/{id}/raw",
            body="link",
            link="download_url",
            hosts=("*.agentmail.to", "*.agentmail.eu"),
        ),
    ),
    "mailosaur": KnownApi(
        title="Mailosaur",
        url="https://mailosaur.com",
        table=InboxApi(
            list_path="/api/messages",
            list_query={"server": "{inbox}", "itemsPerPage": "{limit}", "dir": "Received"},
            items="items",
            time="received",
            recipients="to",
            position="since",
            since_query="receivedAfter",
            paging="number",
            page_query="page",
            message_path="/api/files/email/{id}",
            auth="basic",
        ),
    ),
    "mailslurp": KnownApi(
        title="MailSlurp",
        url="https://api.mailslurp.com",
        table=InboxApi(
            list_path="/inboxes/{inbox}/emails/paginated",
            list_query={"size": "{limit}", "sort": "ASC"},
            items="content",
            time="createdAt",
            recipients="to",
            position="since",
            since_query="since",
            order="oldest_first",
            paging="number",
            page_query="page",
            message_path="/emails/{id}/raw",
            auth="header",
        ),
    ),
    "mailhook": KnownApi(
        title="Mailhook-shaped: a list since a time, messages as JSON",
        url="",
        table=InboxApi(
            list_path="/v1/inboxes/{inbox}/emails",
            list_query={"limit": "{limit}", "sort": "receivedAt"},
            items="data",
            time="receivedAt",
            recipients="to",
            position="since",
            since_query="since",
            order="oldest_first",
            paging="token",
            page_query="cursor",
            next_page="nextCursor",
            message_path="/v1/inboxes/{inbox}/emails/{id}",
            body="json",
            fields=JsonFields(message_id="messageId", reply_to="replyTo"),
        ),
    ),
    "mailpit": KnownApi(
        title="Mailpit",
        url="",
        auth_optional=True,
        table=InboxApi(
            list_path="/api/v1/messages",
            list_query={"limit": "{limit}"},
            items="messages",
            id="ID",
            time="Created",
            size="Size",
            recipients="To",
            position="since",
            paging="offset",
            page_query="start",
            message_path="/api/v1/message/{id}/raw",
            auth="basic",
        ),
    ),
    "oncebox": KnownApi(
        title="another Oncebox",
        url="",
        table=InboxApi(
            list_path="/v1/inboxes/{inbox}/messages",
            list_query={"limit": "{limit}"},
            items="data",
            time="received_at",
            size="size",
            position="cursor",
            next_cursor="next_cursor",
            message_path="/v1/messages/{id}/raw",
        ),
    ),
}


class RestConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rest"):
    """An inbox behind an API that lists messages."""

    #: a name of `KNOWN_APIS`, or ``generic-rest`` with a table
    api: str
    #: empty: that of the provider
    url: str = ""
    #: the id of the inbox or server, as the API names it
    inbox: str = ""
    #: the API key, or the password of a user
    key: str = ""
    username: str = ""
    table: InboxApi | None = None
    since: Since = "now"
    #: seconds: how late mail may appear, and how far the clocks of the provider may differ
    overlap: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 600.0
    #: further hosts that links may name
    hosts: tuple[str, ...] = ()
    ca: str = ""

    @property
    def base_url(self) -> str:
        """The URL of the API."""
        known = KNOWN_APIS.get(self.api)
        return (self.url or (known.url if known else "")).rstrip("/")

    @property
    def account(self) -> str:
        """The server and the inbox, without secrets."""
        return f"{self.inbox}@{host_of(self.base_url)}" if self.inbox else host_of(self.base_url)

    def __repr__(self) -> str:
        return f"RestConfig({self.api}, {self.account})"


def rest_table(config: RestConfig) -> InboxApi:
    """Return the table of a configuration, checked.

    Raises: ConfigInvalid.
    """
    known = KNOWN_APIS.get(config.api)
    table = known.table if known else config.table
    if table is None or (known is None and config.api != GENERIC):
        names = ", ".join([*KNOWN_APIS, GENERIC])
        raise ConfigInvalid(f"the API is one of {names}; {GENERIC} needs a table")
    if known is not None and config.table is not None:
        raise ConfigInvalid(f"a table is only for {GENERIC}; leave it out for {config.api}")
    needs_key = table.auth != "none" and not (known is not None and known.auth_optional)
    check_api_url(config.base_url, has_secret=bool(config.key), example="https://api.example.com")
    check_secret("API key", config.key, required=needs_key)
    check_hosts((*config.hosts, *table.hosts))
    if ":" in config.username or not (config.username + "x").isprintable():
        raise ConfigInvalid("a user name has no colon and no control characters")
    wants_inbox = "{inbox}" in table.list_path + table.message_path + "".join(
        table.list_query.values()
    )
    if (wants_inbox or config.inbox) and not _INBOX.fullmatch(config.inbox):
        raise ConfigInvalid("this API needs the id of an inbox, without spaces")
    check_inbox_api(table)
    return table


def check_inbox_api(table: InboxApi) -> None:
    """Check a table.

    Raises: ConfigInvalid: names the field.
    """
    _check_paths(table)
    _check_names(table)
    _check_position(table)


def _check_paths(table: InboxApi) -> None:
    for name in ("list_path", "message_path"):
        path = getattr(table, name)
        if not _URL_PATH.fullmatch(path) or "//" in path or "/.." in path:
            raise ConfigInvalid(f"{name} is a path such as /v1/inboxes/{{inbox}}/messages")
    if "{id}" not in table.message_path or "{id}" in table.list_path:
        raise ConfigInvalid("message_path contains {id}, and list_path does not")
    if not all(map(_QUERY_VALUE.fullmatch, table.list_query.values())):
        raise ConfigInvalid("the values of list_query are texts, with {inbox} or {limit}")


def _check_names(table: InboxApi) -> None:
    dotted = {
        name: getattr(table, name)
        for name in ("items", "id", "time", "size", "recipients", "next_cursor", "item_cursor",
                     "next_page", "link")
    }  # fmt: skip
    dotted |= {
        f"fields.{name}": getattr(table.fields, name) for name in table.fields.__struct_fields__
    }
    for name, path in dotted.items():
        if (path or name in {"id", "time"}) and not _PATH.fullmatch(path):
            raise ConfigInvalid(f"{name} is a dotted name such as data.items")
    for name in ("cursor_query", "since_query", "page_query"):
        value = getattr(table, name)
        if value and not _NAME.fullmatch(value):
            raise ConfigInvalid(f"{name} is the name of a parameter")
    if not all(map(_NAME.fullmatch, table.list_query)):
        raise ConfigInvalid("list_query has names of parameters, such as limit")
    for name in ("auth_header", "retry_header"):
        if not _HEADER.fullmatch(getattr(table, name)):
            raise ConfigInvalid(f"{name} is the name of a header field in lower case")


def _check_position(table: InboxApi) -> None:
    if table.position == "cursor":
        if not table.cursor_query or bool(table.next_cursor) == bool(table.item_cursor):
            raise ConfigInvalid(
                "a cursor needs cursor_query, and either next_cursor or item_cursor"
            )
        return
    if table.paging != "none" and not table.page_query:
        raise ConfigInvalid("paging needs page_query, the parameter of the page")
    if table.paging == "token" and not table.next_page:
        raise ConfigInvalid("paging by token needs next_page, the field of the next token")
    if table.body == "link" and not table.link:
        raise ConfigInvalid("the body link needs link, the field of the link")
    if table.paging == "none" and table.order == "oldest_first" and not table.since_query:
        raise ConfigInvalid("a list with the oldest first needs paging or since_query")
