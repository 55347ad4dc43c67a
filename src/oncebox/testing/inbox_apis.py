"""Fake inbox APIs: AgentMail, Mailosaur, MailSlurp, Mailpit, and one that gives JSON only.

Written after https://docs.agentmail.to/api-reference/inboxes/messages,
https://mailosaur.com/docs/api, https://docs.mailslurp.com/api/ (inbox and email controllers),
https://mailpit.axllent.org/docs/api-v1/ and https://docs.emailhook.com/api/emails.html.
"""

import base64
from email import message_from_bytes, policy
from email.message import EmailMessage
from urllib.parse import quote

from oncebox.testing.mailbox_server import (
    ApiReply,
    ApiRequest,
    FakeMailbox,
    StoredMail,
    iso_time,
    json_reply,
    time_of,
)

INBOX = "inbox-1"


class _InboxApi(FakeMailbox):
    """What the fakes share."""

    #: requests to a page token of before are refused
    token_epoch = 0

    def since(self, request: ApiRequest, name: str) -> list[StoredMail]:
        """Return mails after a time, the oldest first."""
        text = request.get(name)
        begin = time_of(text) if text else -1
        # Sorted first: the copy is made at once, while another thread may deliver.
        every = sorted(self.mails.values(), key=lambda each: (each.at, each.number))
        return [each for each in every if each.at > begin]

    def _page(
        self, request: ApiRequest, mails: list[StoredMail], name: str
    ) -> tuple[list[StoredMail], str | None] | None:
        """Return a page by a token, which names the mail before it; None: it is unknown."""
        most = int(request.get("limit", "50"))
        token = request.get(name)
        if token:
            epoch, at, number = map(int, token.split("-"))
            if epoch != self.token_epoch:
                return None
            mails = [each for each in mails if (each.at, each.number) > (at, number)]
        page = mails[:most]
        more = f"{self.token_epoch}-{page[-1].at}-{page[-1].number}" if len(mails) > most else None
        return page, more


class FakeAgentMail(_InboxApi):
    """Behaves as AgentMail does: raw mail behind a signed link, ids that are Message-IDs."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        #: where links lead to; empty: to this server
        self.link_origin = ""

    def new_id(self, number: int) -> str:
        """Return an id."""
        return f"<{number:04d}.abc@mail.example.com>"

    def authorized(self, request: ApiRequest) -> bool:
        """Tell whether a request may be answered: a signed link needs no key, and gets none."""
        if request.path.startswith("/signed/"):
            return "authorization" not in request.headers
        return super().authorized(request)

    def answer(self, request: ApiRequest) -> ApiReply:
        """Answer a request."""
        if request.path.startswith("/signed/"):
            return self.raw_reply(request.path.removeprefix("/signed/"))
        _, _, rest = request.path.partition(f"/v0/inboxes/{INBOX}/messages")
        if rest.endswith("/raw"):
            return self._raw(rest.removeprefix("/").removesuffix("/raw"))
        if rest or request.get("ascending") != "true":
            return json_reply({"name": "NotFoundError"}, 404)
        return self._list(request)

    def _list(self, request: ApiRequest) -> ApiReply:
        found = self._page(request, self.since(request, "after"), "page_token")
        if found is None:
            return json_reply({"name": "ValidationError"}, 400)
        page, token = found
        said: dict[str, object] = {"count": len(page), "messages": list(map(_agentmail, page))}
        if token:
            said["next_page_token"] = token
        return json_reply(said)

    def _raw(self, id_: str) -> ApiReply:
        mail = self.mails.get(id_)
        if mail is None:
            return json_reply({"name": "NotFoundError"}, 404)
        link = f"{self.link_origin or self.origin}/signed/{quote(id_)}"
        said = {"message_id": id_, "size": len(mail.raw), "download_url": link}
        return json_reply({**said, "expires_at": iso_time(self.now() + 3_600_000)})


def _agentmail(mail: StoredMail) -> dict[str, object]:
    return {
        "inbox_id": INBOX,
        "message_id": mail.id,
        "timestamp": iso_time(mail.at),
        "to": ["Ann <ann@example.com>"],
        "size": len(mail.raw),
    }


class FakeMailosaur(_InboxApi):
    """Behaves as Mailosaur does: the newest first, by page number."""

    def authorized(self, request: ApiRequest) -> bool:
        """Tell whether the key is the user name."""
        expected = base64.b64encode(f"{self.key}:".encode()).decode()
        return request.headers.get("authorization") == f"Basic {expected}"

    def answer(self, request: ApiRequest) -> ApiReply:
        """Answer a request."""
        if request.path.startswith("/api/files/email/"):
            return self.raw_reply(request.path.rpartition("/")[2])
        if request.path != "/api/messages" or request.get("server") != INBOX:
            return json_reply({"message": "Not Found"}, 404)
        found = self.since(request, "receivedAfter")[::-1]
        size, page = int(request.get("itemsPerPage", "50")), int(request.get("page", "0"))
        items = [
            {"id": each.id, "received": iso_time(each.at), "to": [{"email": "ann@example.com"}]}
            for each in found[page * size : (page + 1) * size]
        ]
        return json_reply({"items": items})


class FakeMailSlurp(_InboxApi):
    """Behaves as MailSlurp does: the oldest first, by page number."""

    def authorized(self, request: ApiRequest) -> bool:
        """Tell whether the key is in its own header."""
        return request.headers.get("x-api-key") == self.key

    def answer(self, request: ApiRequest) -> ApiReply:
        """Answer a request."""
        if request.path.startswith("/emails/") and request.path.endswith("/raw"):
            return self.raw_reply(request.path.split("/")[2], "text/plain")
        if request.path != f"/inboxes/{INBOX}/emails/paginated" or request.get("sort") != "ASC":
            return json_reply({"message": "Not Found"}, 404)
        found = self.since(request, "since")
        size, page = int(request.get("size", "20")), int(request.get("page", "0"))
        shown = found[page * size : (page + 1) * size]
        content = [
            {"id": each.id, "createdAt": iso_time(each.at), "to": ["ann@example.com"]}
            for each in shown
        ]
        last = (page + 1) * size >= len(found)
        return json_reply({"content": content, "last": last, "totalElements": len(found)})


class FakeMailpit(_InboxApi):
    """Behaves as Mailpit does: the newest first, by offset, without a filter and without a key."""

    def authorized(self, request: ApiRequest) -> bool:
        """Tell whether a request may be answered: all may."""
        del request
        return True

    def answer(self, request: ApiRequest) -> ApiReply:
        """Answer a request."""
        if request.path.startswith("/api/v1/message/") and request.path.endswith("/raw"):
            return self.raw_reply(request.path.split("/")[4], "text/plain; charset=utf-8")
        if request.path != "/api/v1/messages":
            return ApiReply(status=404, body=b"404 page not found")
        found = sorted(self.mails.values(), key=lambda each: (-each.at, -each.number))
        start, limit = int(request.get("start", "0")), int(request.get("limit", "50"))
        shown = [
            {
                "ID": each.id,
                "Created": iso_time(each.at),
                "Size": len(each.raw),
                "To": [{"Name": "Ann", "Address": "ann@example.com"}],
            }
            for each in found[start : start + limit]
        ]
        return json_reply({"total": len(found), "start": start, "messages": shown})


class FakeMailhook(_InboxApi):
    """Lists since a time, and gives messages as JSON only."""

    def answer(self, request: ApiRequest) -> ApiReply:
        """Answer a request."""
        path = f"/v1/inboxes/{INBOX}/emails"
        if request.path.startswith(f"{path}/"):
            return self._message(request.path.rpartition("/")[2])
        if request.path != path:
            return json_reply({"error": "not_found"}, 404)
        found = self._page(request, self.since(request, "since"), "cursor")
        if found is None:
            return json_reply({"error": "invalid_cursor"}, 400)
        data = [{"id": each.id, "receivedAt": iso_time(each.at)} for each in found[0]]
        return json_reply({"data": data, "nextCursor": found[1]})

    def _message(self, id_: str) -> ApiReply:
        mail = self.mails.get(id_)
        if mail is None or id_ in self.broken:
            return json_reply({"error": "not_found"}, 404 if mail is None else 500)
        parsed = message_from_bytes(mail.raw, EmailMessage, policy=policy.default)
        body = parsed.get_body(("plain",))
        return json_reply(
            {
                "id": id_,
                "from": {"name": "Shop", "email": "shop@example.com"},
                "to": ["Ann <ann@example.com>"],
                "subject": str(parsed["subject"] or ""),
                "text": body.get_content() if body else "",
                "html": "",
                "messageId": str(parsed["message-id"] or ""),
                "receivedAt": iso_time(mail.at),
            }
        )
