"""Fake JMAP server: session, Email/changes, /query and /get, blobs, EventSource.

Written after RFC 8620 and RFC 8621.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

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

ACCOUNT = "u1"
INBOX = "f-inbox"
JUNK = "f-junk"
_CORE = "urn:ietf:params:jmap:core"
_MAIL = "urn:ietf:params:jmap:mail"


class _MethodError(Exception):
    """A method cannot be answered."""


class _Change(msgspec.Struct, frozen=True):
    state: int
    mail: str
    #: created, updated or destroyed
    kind: str


class FakeJmap(FakeMailbox):
    """Behaves as a JMAP server does; the session is at ``/jmap/session``."""

    def __init__(self, *, push: bool = True, buffers: bool = False, **options: Any) -> None:
        """``push``: there is an EventSource; ``buffers``: a proxy holds its events back."""
        super().__init__(**options)
        self._push = push
        self._buffers = buffers
        self._changes: list[_Change] = []
        self._oldest = 0
        self._news = asyncio.Condition()
        #: how many listen now
        self.listeners = 0
        #: set when the first does
        self.has_listener = asyncio.Event()
        self.folders: dict[str, str] = {}
        #: the folder of mail that arrives from now on
        self.folder = INBOX
        self.max_objects = 500
        #: the error of every method; empty: none
        self.method_error = ""
        #: where the session says that blobs are
        self.download_url = "/jmap/download/{accountId}/{blobId}/{name}?accept={type}"

    @property
    def state(self) -> str:
        """The state of all mail."""
        return f"s{len(self._changes)}"

    def arrived(self, mail: StoredMail) -> None:
        """Record the arrival, and push it."""
        self.folders[mail.id] = self.folder
        self._change(mail.id, "created")

    def touch(self, id_: str) -> None:
        """Let a flag change."""
        self._change(id_, "updated")

    def remove(self, id_: str) -> None:
        """Destroy a mail."""
        super().remove(id_)
        self._change(id_, "destroyed")

    def forget_changes(self) -> None:
        """Forget the changes until now."""
        self._oldest = len(self._changes)

    def answer(self, request: ApiRequest) -> ApiReply:
        """Answer a request."""
        if request.path == "/jmap/session":
            return json_reply(self._session())
        if request.path == "/jmap/api" and request.method == "POST":
            return self._call(request)
        if request.path.startswith(f"/jmap/download/{ACCOUNT}/"):
            return self.raw_reply(request.path.split("/")[4].removeprefix("b-"))
        return ApiReply(status=404)

    def stream(self, request: ApiRequest) -> AsyncIterator[bytes] | None:
        """Return the events."""
        if request.path != "/jmap/events" or not self._push:
            return None
        return self._events(float(request.get("ping", "300")))

    async def _events(self, ping: float) -> AsyncIterator[bytes]:
        known = self.state
        self.listeners += 1
        self.has_listener.set()
        try:
            while self._buffers:
                yield b""
                await asyncio.sleep(0.01)
            yield b": hello\r\n\r\n"
            while True:
                yield await self._next_event(known, ping)
                known = self.state
        finally:
            self.listeners -= 1

    async def _next_event(self, known: str, ping: float) -> bytes:
        try:
            async with asyncio.timeout(ping or None), self._news:
                await self._news.wait_for(lambda: self.state != known)
        except TimeoutError:
            return b'event: ping\r\ndata: {"interval": %d}\r\n\r\n' % ping
        change = {"@type": "StateChange", "changed": {ACCOUNT: {"Email": self.state}}}
        return b"event: state\r\ndata: " + msgspec.json.encode(change) + b"\r\n\r\n"

    async def announce(self) -> None:
        """Wake those who listen."""
        async with self._news:
            self._news.notify_all()

    def _session(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "capabilities": {_CORE: {"maxObjectsInGet": self.max_objects}, _MAIL: {}},
            "accounts": {ACCOUNT: {"name": "ann@example.com", "isPersonal": True}},
            "primaryAccounts": {_MAIL: ACCOUNT},
            "username": "ann@example.com",
            "apiUrl": "/jmap/api",
            "downloadUrl": self.download_url,
            "uploadUrl": "/jmap/upload/{accountId}/",
            "state": "1",
        }
        if self._push:
            said["eventSourceUrl"] = (
                "/jmap/events?types={types}&closeafter={closeafter}&ping={ping}"
            )
        return said

    def _change(self, id_: str, kind: str) -> None:
        self._changes.append(_Change(len(self._changes) + 1, id_, kind))

    # methods

    def _call(self, request: ApiRequest) -> ApiReply:
        methods: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "Email/changes": self._email_changes,
            "Email/query": self._email_query,
            "Email/get": self._email_get,
            "Mailbox/get": self._mailbox_get,
        }
        answers: list[list[Any]] = []
        for name, arguments, number in msgspec.json.decode(request.body)["methodCalls"]:
            try:
                if self.method_error:
                    raise _MethodError(self.method_error)  # noqa: TRY301 - as a method would
                answers.append([name, methods[name](_resolved(arguments, answers)), number])
            except _MethodError as error:
                answers.append(["error", {"type": str(error)}, number])
        return json_reply({"methodResponses": answers, "sessionState": "1"})

    def _email_changes(self, asked: dict[str, Any]) -> dict[str, Any]:
        since = int(asked["sinceState"].removeprefix("s") or 0)
        if not self._oldest <= since <= len(self._changes):
            raise _MethodError("cannotCalculateChanges")
        page = self._changes[since : since + asked["maxChanges"]]
        state = page[-1].state if page else since
        created = {each.mail for each in page if each.kind == "created"}
        destroyed = {each.mail for each in page if each.kind == "destroyed"}
        updated = {each.mail for each in page if each.kind == "updated"}
        return {
            "accountId": ACCOUNT,
            "oldState": asked["sinceState"],
            "newState": f"s{state}",
            "hasMoreChanges": state < len(self._changes),
            "created": sorted(created - destroyed),
            "updated": sorted(updated - created - destroyed),
            "destroyed": sorted(destroyed - created),
        }

    def _email_query(self, asked: dict[str, Any]) -> dict[str, Any]:
        wanted = asked.get("filter") or {}
        after = time_of(wanted["after"]) if "after" in wanted else 0
        found = [
            each.id
            for each in sorted(self.mails.values(), key=lambda each: (each.at, each.id))
            if each.at >= after and wanted.get("inMailbox") in {None, self.folders[each.id]}
        ]
        begin = 0
        if "anchor" in asked:
            if asked["anchor"] not in found:
                raise _MethodError("anchorNotFound")
            begin = found.index(asked["anchor"]) + asked["anchorOffset"]
        ids = found[begin : begin + asked["limit"]]
        return {"accountId": ACCOUNT, "ids": ids, "total": len(found), "position": begin}

    def _email_get(self, asked: dict[str, Any]) -> dict[str, Any]:
        if len(asked["ids"]) > self.max_objects:
            raise _MethodError("requestTooLarge")
        found = [self.mails[id_] for id_ in asked["ids"] if id_ in self.mails]
        return {
            "accountId": ACCOUNT,
            "state": self.state,
            "list": list(map(self._to_email, found)),
            "notFound": [id_ for id_ in asked["ids"] if id_ not in self.mails],
        }

    def _to_email(self, mail: StoredMail) -> dict[str, Any]:
        return {
            "id": mail.id,
            "blobId": f"b-{mail.id}",
            "size": len(mail.raw),
            "receivedAt": iso_time(mail.at // 1000 * 1000),
            "mailboxIds": {self.folders[mail.id]: True},
            "keywords": {},
        }

    def _mailbox_get(self, asked: dict[str, Any]) -> dict[str, Any]:
        del asked
        counts = list(self.folders.values())
        folders = [(INBOX, "Inbox", "inbox"), (JUNK, "Spam", "junk"), ("f-notes", "Notes", None)]
        listed = [
            {"id": id_, "name": name, "role": role, "totalEmails": counts.count(id_)}
            for id_, name, role in folders
        ]
        return {"accountId": ACCOUNT, "state": "1", "list": listed, "notFound": []}


def _resolved(arguments: dict[str, Any], answers: list[list[Any]]) -> dict[str, Any]:
    """Return arguments with the references to earlier answers replaced."""
    found = {}
    for name, value in arguments.items():
        if not name.startswith("#"):
            found[name] = value
            continue
        answered = next(each for each in answers if each[2] == value["resultOf"])
        if answered[0] != value["name"]:
            raise _MethodError("invalidResultReference")
        found[name[1:]] = answered[1][value["path"].removeprefix("/")]
    return found
