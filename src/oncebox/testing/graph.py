"""Fake Microsoft Graph: delta of a folder's messages, and their MIME content.

Written after https://learn.microsoft.com/en-us/graph/api/message-delta, …/delta-query-messages,
…/outlook-immutable-id and …/outlook-get-mime-message.
"""

import base64

import msgspec

from oncebox.testing.mailbox_server import (
    ApiReply,
    ApiRequest,
    FakeMailbox,
    StoredMail,
    iso_time,
    json_reply,
    time_of,
)

_BASE = "/v1.0/me"
_FOLDER = f"{_BASE}/mailFolders/inbox"


class _Change(msgspec.Struct, frozen=True):
    number: int
    mail: str
    #: created, updated or deleted
    kind: str


class _Token(msgspec.Struct, frozen=True):
    #: the options of the first request, which all later ones keep
    created_only: bool
    since: int
    #: the change after which it continues
    after: int
    #: changes of this round
    until: int
    epoch: int


class FakeGraph(FakeMailbox):
    """Behaves as Graph does."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._changes: list[_Change] = []
        self._epoch = 0
        #: pages hold so many, whatever a request prefers; 0: as it prefers
        self.page_size = 0
        #: the origin of links, if it is not the server's
        self.link_origin = ""
        #: every page leads to itself
        self.is_stuck = False

    def arrived(self, mail: StoredMail) -> None:
        """Record the arrival."""
        self._change(mail.id, "created")

    def touch(self, id_: str) -> None:
        """Let the owner read a mail, which changes it."""
        self._change(id_, "updated")

    def remove(self, id_: str) -> None:
        """Delete a mail."""
        super().remove(id_)
        self._change(id_, "deleted")

    def expire_links(self) -> None:
        """Forget all links that were given until now."""
        self._epoch += 1

    def answer(self, request: ApiRequest) -> ApiReply:
        """Answer a request."""
        if request.path == f"{_FOLDER}/messages/delta":
            return self._delta(request)
        if request.path == _FOLDER:
            return json_reply({"id": "inbox", "totalItemCount": len(self.mails)})
        if request.path.startswith(f"{_BASE}/messages/") and request.path.endswith("/$value"):
            return self.raw_reply(request.path.split("/")[-2], "text/plain")
        return _error(404, "ErrorItemNotFound")

    def unauthorized(self) -> ApiReply:
        """Return the answer to a token that is not valid."""
        return _error(401, "InvalidAuthenticationToken")

    def _change(self, id_: str, kind: str) -> None:
        self._changes.append(_Change(len(self._changes) + 1, id_, kind))

    def _delta(self, request: ApiRequest) -> ApiReply:
        if 'IdType="ImmutableId"' not in request.headers.get("prefer", ""):
            return _error(400, "ErrorImmutableIdExpected")  # our own rule: ids must not change
        token = self._token(request)
        if token.epoch != self._epoch:
            return _error(410, "SyncStateNotFound")
        changes = self._wanted(token)
        most = self.page_size or _preferred(request)
        page = changes[:most]
        if self.is_stuck or len(changes) > most:
            after = token.after if self.is_stuck else page[-1].number
            link = self._link("$skiptoken", msgspec.structs.replace(token, after=after))
            name = "@odata.nextLink"
        else:
            done = msgspec.structs.replace(token, after=token.until, until=0)
            link, name = self._link("$deltatoken", done), "@odata.deltaLink"
        return json_reply({"value": list(map(self._item, page)), name: link})

    def _token(self, request: ApiRequest) -> _Token:
        text = request.get("$skiptoken") or request.get("$deltatoken")
        if not text:
            wanted = request.get("$filter").removeprefix("receivedDateTime ge ")
            token = _Token(
                created_only=request.get("changeType") == "created",
                since=time_of(wanted) if wanted else 0,
                after=0,
                until=0,
                epoch=self._epoch,
            )
        else:
            token = msgspec.json.decode(base64.urlsafe_b64decode(text), type=_Token)
        if not token.until:
            token = msgspec.structs.replace(token, until=len(self._changes))
        return token

    def _wanted(self, token: _Token) -> list[_Change]:
        kinds = {"created"} if token.created_only else {"created", "updated", "deleted"}
        return [
            each
            for each in self._changes
            if token.after < each.number <= token.until
            and each.kind in kinds
            and (each.mail not in self.mails or self.mails[each.mail].at >= token.since)
        ]

    def _item(self, change: _Change) -> dict[str, object]:
        mail = self.mails.get(change.mail)
        if mail is None:
            return {"id": change.mail, "@removed": {"reason": "deleted"}}
        return {"id": mail.id, "receivedDateTime": iso_time(mail.at), "isDraft": False}

    def _link(self, name: str, token: _Token) -> str:
        text = base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()
        return f"{self.link_origin or self.origin}{_FOLDER}/messages/delta?{name}={text}"


def _preferred(request: ApiRequest) -> int:
    _, _, size = request.headers.get("prefer", "").partition("odata.maxpagesize=")
    return int(size) if size.isdecimal() else 10


def _error(status: int, code: str) -> ApiReply:
    return json_reply({"error": {"code": code, "message": "as the script says"}}, status)
