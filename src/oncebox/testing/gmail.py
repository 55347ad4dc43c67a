"""Fake Gmail API: profile, history, messages.

Written after https://developers.google.com/workspace/gmail/api/reference/rest (users.getProfile,
users.history.list, users.messages.list and .get) and …/guides/sync.
"""

import base64

import msgspec

from oncebox.testing.mailbox_server import (
    ApiReply,
    ApiRequest,
    FakeMailbox,
    StoredMail,
    json_reply,
)

_PREFIX = "/gmail/v1/users/me"
_HISTORY_ID = 1000


class _Record(msgspec.Struct, frozen=True):
    id: int
    mail: str
    #: the label that was added; empty: the mail arrived
    label: str = ""


class FakeGmail(FakeMailbox):
    """Behaves as Gmail does."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._history: list[_Record] = []
        self._forgotten = 0
        self.labels: dict[str, set[str]] = {}
        #: the label of mail that arrives from now on
        self.label = "INBOX"
        #: page tokens of earlier answers are refused
        self.tokens_after = 0
        self._tokens = 0

    def new_id(self, number: int) -> str:
        """Return an id as Gmail writes them."""
        return f"{0x18C0000000000000 + number:x}"

    def arrived(self, mail: StoredMail) -> None:
        """Record the arrival in the history."""
        self.labels[mail.id] = {self.label, "UNREAD"}
        self._record(mail.id)

    def add_label(self, id_: str, label: str) -> None:
        """Let the owner or a filter add a label later."""
        self.labels[id_].add(label)
        self._record(id_, label)

    def forget_history(self) -> None:
        """Forget all history until now, as Gmail does after about a week."""
        self._record("")
        self._forgotten = self.history_id

    def expire_tokens(self) -> None:
        """Refuse the page tokens that were given until now."""
        self.tokens_after = self._tokens

    @property
    def history_id(self) -> int:
        """The current history record."""
        return _HISTORY_ID + len(self._history)

    def answer(self, request: ApiRequest) -> ApiReply:
        """Answer a request."""
        resource, _, id_ = request.path.removeprefix(_PREFIX + "/").partition("/")
        if not request.path.startswith(_PREFIX):
            return _error(404, "notFound")
        if resource == "profile":
            said = {"emailAddress": "ann@gmail.com", "historyId": str(self.history_id)}
            return json_reply({**said, "messagesTotal": len(self.mails)})
        if resource == "history":
            return self._list_history(request)
        return self._get(id_, request) if id_ else self._list(request)

    def _record(self, id_: str, label: str = "") -> None:
        self._history.append(_Record(self.history_id + 1, id_, label))

    def _list_history(self, request: ApiRequest) -> ApiReply:
        start = request.get("startHistoryId")
        if not start.isdecimal():
            return _error(400, "invalidArgument")
        if int(start) < self._forgotten:
            return _error(404, "notFound")
        begin = self._page(request)
        if begin is None:
            return _error(400, "invalidArgument")
        label, most = request.get("labelId"), int(request.get("maxResults", "100"))
        after = [each for each in self._history if each.id > max(int(start), begin)]
        records = [each for each in after if each.mail and self._has(each.mail, label)]
        page = records[:most]
        said: dict[str, object] = {"historyId": str(self.history_id)}
        if page:
            said["history"] = list(map(self._to_history, page))
        if len(records) > most:
            said["nextPageToken"] = self._token(page[-1].id)
        return json_reply(said)

    def _to_history(self, record: _Record) -> dict[str, object]:
        labels = sorted(self.labels[record.mail])
        message = {"id": record.mail, "threadId": record.mail, "labelIds": labels}
        change: dict[str, object] = {"message": message}
        if record.label:
            return {"id": str(record.id), "labelsAdded": [{**change, "labelIds": [record.label]}]}
        return {"id": str(record.id), "messagesAdded": [change]}

    def _has(self, id_: str, label: str) -> bool:
        return not label or label in self.labels[id_]

    def _list(self, request: ApiRequest) -> ApiReply:
        label, most = request.get("labelIds"), int(request.get("maxResults", "100"))
        after = request.get("q").removeprefix("after:")
        since = int(after) * 1000 if after else 0
        begin = self._page(request)
        if begin is None:
            return _error(400, "invalidArgument")
        found = [
            each
            for each in sorted(self.mails.values(), key=lambda each: -each.number)
            if self._has(each.id, label) and each.at >= since
        ]
        left = [each for each in found if not begin or each.number < begin]
        said: dict[str, object] = {"resultSizeEstimate": len(found)}
        if left:
            said["messages"] = [{"id": each.id, "threadId": each.id} for each in left[:most]]
        if len(left) > most:
            said["nextPageToken"] = self._token(left[most - 1].number)
        return json_reply(said)

    def _get(self, id_: str, request: ApiRequest) -> ApiReply:
        mail = self.mails.get(id_)
        if id_ in self.broken:
            return _error(500, "backendError")
        if mail is None or request.get("format") != "raw":
            return _error(404, "notFound")
        raw = base64.urlsafe_b64encode(mail.raw).decode().rstrip("=")
        said = {"id": id_, "threadId": id_, "labelIds": sorted(self.labels[id_]), "raw": raw}
        return json_reply({**said, "internalDate": str(mail.at), "sizeEstimate": len(mail.raw)})

    def _token(self, place: int) -> str:
        self._tokens += 1
        return f"{self._tokens}-{place}"

    def _page(self, request: ApiRequest) -> int | None:
        number, _, place = request.get("pageToken").partition("-")
        if not number:
            return 0
        return int(place) if int(number) > self.tokens_after else None


def gmail_error(status: int, reason: str) -> ApiReply:
    """Return an error as Google writes it, such as 403 with ``rateLimitExceeded``."""
    return _error(status, reason)


def _error(status: int, reason: str) -> ApiReply:
    errors = [{"domain": "global", "reason": reason, "message": "as the script says"}]
    error = {"code": status, "message": "as the script says", "errors": errors}
    return json_reply({"error": error}, status)
