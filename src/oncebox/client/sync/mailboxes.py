# Generated from oncebox/client/asynchronous/mailboxes.py by `make sync-client`; do not edit.
"""`client.mailboxes`: add, change, test, pause and remove mailboxes on other servers."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from oncebox.client.core.calls import (
    Call,
    api_path,
    create_call,
    delete_call,
    get_call,
    page_call,
    post_call,
)
from oncebox.client.sync.runner import Resource
from oncebox.schemas.fields import EmptyBody, ListQuery, ReasonBody
from oncebox.schemas.mailboxes import (
    ChangedMailbox,
    Mailbox,
    MailboxPage,
    MailboxTest,
    NewMailbox,
)

#: seconds that the service gives a server to answer a test
_TEST_WITHIN = 20.0


class Mailboxes(Resource):
    """``client.mailboxes``."""

    def list(self) -> Iterator[Mailbox]:
        """Iterate over all mailboxes, by name."""
        return self._runner.iterate(page_call(MailboxPage, ListQuery, "mailboxes"))

    def page(self, *, limit: int | None = None, cursor: str | None = None) -> MailboxPage:
        """Return one page of mailboxes, by name."""
        return self._run(page_call(MailboxPage, ListQuery, "mailboxes", limit=limit, cursor=cursor))

    def get(self, name: str) -> Mailbox:
        """Return one mailbox without its secrets: state, cursor version and figures."""
        return self._run(get_call(Mailbox, "mailboxes", name))

    def add(
        self,
        name: str,
        url: str = "",
        *,
        idempotency_key: str | None = None,
        kind: Literal["imap", "jmap", "gmail", "graph", "rest"] = "imap",
        username: str = "",
        password: str = "",
        api_key: str = "",
        token_url: str = "",
        client_id: str = "",
        client_secret: str = "",
        refresh_token: str = "",
        scope: str = "",
        folders: Sequence[str] = (),
        api: str = "",
        api_inbox: str = "",
        table: dict[str, Any] | None = None,
        since: Literal["now", "all"] | int = "now",
        ca: str = "",
        inbox: str | None = None,
        address: str = "",
        trust_results: str = "",
        poll_every: float = 60.0,
        push: str | None = None,
        poll_after: float = 30.0,
    ) -> Mailbox:
        """Read the mail of a mailbox on another server; it is read at once.

        The meaning of the fields is that of ``MailboxFields``. Secrets are encrypted and never
        shown again; ``ca`` are certificates in PEM format.

        Raises: ConfigInvalid, NotFound, StateConflict.
        """
        body = NewMailbox(
            name=name,
            url=url,
            kind=kind,
            username=username,
            password=password,
            api_key=api_key,
            token_url=token_url,
            client_id=client_id,
            client_secret=client_secret,
            refresh_token=refresh_token,
            scope=scope,
            folders=[*folders],
            api=api,
            api_inbox=api_inbox,
            table=table or {},
            since=since,
            ca=ca,
            inbox=inbox,
            address=address,
            trust_results=trust_results,
            poll_every=poll_every,
            push=push,
            poll_after=poll_after,
        )
        return self._run(create_call(Mailbox, body, idempotency_key, "mailboxes"))

    def change(
        self,
        name: str,
        url: str = "",
        *,
        kind: Literal["imap", "jmap", "gmail", "graph", "rest"] = "imap",
        username: str = "",
        password: str = "",
        api_key: str = "",
        token_url: str = "",
        client_id: str = "",
        client_secret: str = "",
        refresh_token: str = "",
        scope: str = "",
        folders: Sequence[str] = (),
        api: str = "",
        api_inbox: str = "",
        table: dict[str, Any] | None = None,
        since: Literal["now", "all"] | int = "now",
        ca: str = "",
        inbox: str | None = None,
        address: str = "",
        trust_results: str = "",
        poll_every: float = 60.0,
        push: str | None = None,
        poll_after: float = 30.0,
    ) -> Mailbox:
        """Replace the whole configuration of a mailbox, secrets too; its cursor stays.

        Raises: ConfigInvalid, NotFound, StateConflict.
        """
        body = ChangedMailbox(
            url=url,
            kind=kind,
            username=username,
            password=password,
            api_key=api_key,
            token_url=token_url,
            client_id=client_id,
            client_secret=client_secret,
            refresh_token=refresh_token,
            scope=scope,
            folders=[*folders],
            api=api,
            api_inbox=api_inbox,
            table=table or {},
            since=since,
            ca=ca,
            inbox=inbox,
            address=address,
            trust_results=trust_results,
            poll_every=poll_every,
            push=push,
            poll_after=poll_after,
        )
        path = api_path("mailboxes", name)
        return self._run(Call(method="PUT", path=path, answer=Mailbox, body=body))

    def remove(self, name: str) -> None:
        """Stop reading a mailbox and forget it; its messages stay."""
        self._run(delete_call(type(None), "mailboxes", name))

    def test(self, name: str) -> MailboxTest:
        """Connect and log in; read no mail. ``works`` says whether that succeeded."""
        call = Call(
            method="POST",
            path=api_path("mailboxes", name, "test"),
            answer=MailboxTest,
            body=EmptyBody(),
            repeatable=True,
            wait=_TEST_WITHIN,
        )
        return self._run(call)

    def pause(self, name: str, *, why: str = "") -> Mailbox:
        """Stop reading a mailbox."""
        return self._run(post_call(Mailbox, ReasonBody(why=why), "mailboxes", name, "pause"))

    def resume(self, name: str, *, why: str = "") -> Mailbox:
        """Read a mailbox at once, after a pause or a failure."""
        return self._run(post_call(Mailbox, ReasonBody(why=why), "mailboxes", name, "resume"))

    def resync(self, name: str, *, why: str = "") -> Mailbox:
        """Read a mailbox from its beginning; mail that was read before is recognised."""
        return self._run(post_call(Mailbox, ReasonBody(why=why), "mailboxes", name, "resync"))
