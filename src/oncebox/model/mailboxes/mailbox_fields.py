"""Fields of a mailbox as they are written: options of a command, a request, a table of settings."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.model.mailboxes.mailbox import MailboxKind, MailboxOrigin, NewMailbox
from oncebox.model.validation import check_name

#: fields that are stored encrypted and never shown
SECRET_FIELDS = ("password", "api_key", "client_secret", "refresh_token")
_MILLISECONDS = 1000

_TOKEN_FIELDS = frozenset({
    "token_command", "token_url", "client_id", "client_secret", "refresh_token", "scope",
})  # fmt: skip
#: fields that only some kinds have
_OF_KIND: dict[str, frozenset[str]] = {
    "imap": frozenset({"username", "password", "folders", *_TOKEN_FIELDS}),
    "jmap": frozenset({"username", "password", "api_key", "folders", *_TOKEN_FIELDS}),
    "gmail": frozenset({"username", "folders", *_TOKEN_FIELDS}),
    "graph": frozenset({"username", "folders", *_TOKEN_FIELDS}),
    "rest": frozenset({"username", "api_key", "api", "api_inbox", "table"}),
}

Kind = Literal["imap", "jmap", "gmail", "graph", "rest"]
_Text = Annotated[str, msgspec.Meta(max_length=1_000)]
_Url = Annotated[str, msgspec.Meta(max_length=2_000)]
_Secret = Annotated[str, msgspec.Meta(max_length=65_536)]
_Pem = Annotated[str, msgspec.Meta(max_length=1_000_000)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
_Interval = Annotated[float, msgspec.Meta(ge=0.1, le=86_400)]
_Folder = Annotated[str, msgspec.Meta(max_length=255)]
_Folders = Annotated[list[_Folder], msgspec.Meta(max_length=100)]
_Since = Literal["now", "all"] | Annotated[int, msgspec.Meta(ge=0, le=36_500)]


class MailboxFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mailbox as its owner describes it; secrets are values. Times are in seconds."""

    #: how it is read
    kind: Kind = "imap"
    #: ``imaps://USER@HOST/FOLDER``, or the URL of the API
    url: _Url = ""
    #: the user, if the URL has none
    username: _Text = ""
    #: imap, jmap: the password
    password: _Secret = ""
    #: jmap, rest: the API key
    api_key: _Secret = ""
    #: OAuth token endpoint
    token_url: _Url = ""
    #: OAuth client id
    client_id: _Text = ""
    #: OAuth client secret
    client_secret: _Secret = ""
    #: OAuth refresh token
    refresh_token: _Secret = ""
    #: OAuth scope
    scope: _Text = ""
    #: folders that are read; gmail: a label; only imap takes several
    folders: _Folders = []
    #: rest: the name of the API, such as ``agentmail``
    api: _Text = ""
    #: rest: the id of the inbox at the API
    api_inbox: _Text = ""
    #: rest: how ``generic-rest`` is read
    table: dict[str, Any] = {}
    #: where the first read begins: ``now``, ``all``, or so many days ago
    since: _Since = "now"
    #: PEM certificates that are trusted in addition to the system's
    ca: _Pem = ""
    #: id of the inbox of all its mail; default: the inboxes of its recipients
    inbox: _Text | None = None
    #: mail address of the mailbox
    address: _Text = ""
    #: the server whose ``Authentication-Results`` are trusted (authserv-id)
    trust_results: _Text = ""
    #: between two polls, where the server does not push
    poll_every: _Interval = 60.0
    #: the webhook source that brings its mail first
    push: _Text | None = None
    #: silence of that source after which the mailbox is polled
    poll_after: _Seconds = 30.0

    def __repr__(self) -> str:
        """Show the kind, nothing else."""
        return f"{type(self).__name__}(kind={self.kind!r})"


class LocalMailboxFields(MailboxFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mailbox that is described on the machine of the service."""

    #: a program that prints an access token; it runs as the service
    token_command: Annotated[str, msgspec.Meta(max_length=2_000)] = ""


FieldsT = TypeVar("FieldsT", bound=MailboxFields)
_DEFAULTS = LocalMailboxFields()


def fields_from_table(
    name: str, table: Mapping[str, Any], kind: type[FieldsT], *, strict: bool = False
) -> FieldsT:
    """Return the fields of a table, checked; numbers may be written as text.

    Raises: ConfigInvalid, naming the field; values are never quoted, they may be secrets.
    """
    check_name(name, "mailbox")
    values = dict(table)
    for field in values:
        if field not in kind.__struct_fields__:
            known = ", ".join(kind.__struct_fields__)
            raise _refusal(name, str(field)[:100], f"there is no such field; write {known}")
    if isinstance(values.get("folders"), str):
        values["folders"] = [values["folders"]]
    since = values.get("since")
    if isinstance(since, str) and since.isdecimal() and len(since) <= len("36500"):
        values["since"] = int(since)
    try:
        fields = msgspec.convert(values, kind, strict=strict)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at ")
        field = place.strip("`").removeprefix("$.").partition("[")[0]
        raise _refusal(name, field, _REMEDIES.get(field) or _rule(said)) from None
    check_fields(name, fields)
    return fields


_REMEDIES = {
    "kind": f"write {', '.join(_OF_KIND)}",
    "since": "write now, all or a number of days",
}


def _rule(said: str) -> str:
    return f"{said[:1].lower()}{said[1:]}"


def check_fields(name: str, fields: MailboxFields) -> None:
    """Check that all fields belong to the kind of the mailbox.

    Raises: ConfigInvalid.
    """
    for field in frozenset().union(*_OF_KIND.values()) - _OF_KIND[fields.kind]:
        if getattr(fields, field, "") != getattr(_DEFAULTS, field):
            raise _refusal(name, field, f"mailboxes of the kind {fields.kind} have no such field")
    if len(fields.folders) > 1 and fields.kind != "imap":
        raise _refusal(name, "folders", "only imap reads several folders; name one")
    if fields.token_url and not (fields.client_id and fields.refresh_token):
        raise _refusal(name, "token_url", "a token endpoint needs client_id and refresh_token")


def _refusal(name: str, field: str, remedy: str) -> ConfigInvalid:
    return ConfigInvalid(f"{field} of mailbox {name[:100]!r} cannot be used: {remedy}")


class MailboxDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A mailbox that was checked and is not stored yet."""

    name: str
    fields: MailboxFields
    #: the server and the account, without secrets
    account: str
    #: its configuration as it is encrypted
    config: bytes

    def __repr__(self) -> str:
        """Show no configuration."""
        return f"MailboxDraft(name={self.name!r})"

    def to_mailbox(
        self, encrypted: bytes, origin: MailboxOrigin = MailboxOrigin.DATABASE
    ) -> NewMailbox:
        """Return it as it is stored, with its configuration encrypted."""
        fields = self.fields
        return NewMailbox(
            name=self.name,
            kind=MailboxKind(fields.kind),
            account=self.account,
            config=encrypted,
            address=fields.address,
            authserv=fields.trust_results.lower(),
            origin=origin,
            inbox_id=fields.inbox,
            poll_every=round(fields.poll_every * _MILLISECONDS),
            push_source=fields.push,
            poll_after=round(fields.poll_after * _MILLISECONDS),
        )


class DeclaredMailboxes(msgspec.Struct, frozen=True, kw_only=True):
    """The mailboxes of the settings."""

    #: all names, also of those that cannot be read
    names: frozenset[str] = frozenset()
    drafts: tuple[MailboxDraft, ...] = ()
    #: names of those whose secrets cannot be fetched, with the code of the error
    troubles: dict[str, str] = {}
