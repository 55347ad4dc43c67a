# Generated from oncebox/client/asynchronous/sends.py by `make sync-client`; do not edit.
"""`client.sends` (send, batch, wait, resolve), `client.transports`, `client.suppressions`."""

from collections.abc import Callable, Iterator, Sequence

from oncebox.client.core import send_plans
from oncebox.client.core.calls import (
    Call,
    api_path,
    check_idempotency_key,
    delete_call,
    get_call,
    page_call,
    post_call,
)
from oncebox.client.core.send_plans import ManyProgress, ManyResult, ManySends
from oncebox.client.sync import Sender
from oncebox.client.sync.runner import Items, Resource
from oncebox.errors import KeyInvalid
from oncebox.model.sends.send import SendState
from oncebox.schemas.fields import ListQuery, ReasonBody
from oncebox.schemas.sends import (
    BatchAnswer,
    BatchRequest,
    CancelSend,
    ResendSend,
    ResolveSend,
    SendAnswer,
    SendInspection,
    SendPage,
    SendQuery,
    SendRequest,
)
from oncebox.schemas.transports import (
    FindSuppression,
    NewSuppression,
    Suppression,
    SuppressionPage,
    Transport,
    TransportList,
)


class Sends(Sender, Resource):
    """``client.sends``."""

    def batch(self, sends: Sequence[SendRequest], *, key: str | None = None) -> BatchAnswer:
        """Send several mails, each once, stored in one commit: all of them, or none.

        Make each with ``oncebox.client.send_request``. Repeating the request with all of them is
        the same batch; ``key`` names it where mails have no event type and entity. ``wait``
        returns the outcome of each.

        Raises: InputRefused, NotFound.
        """
        named = all(each.event_type and each.entity_id for each in sends)
        if key is None and not named:
            raise KeyInvalid("every mail needs event_type and entity_id, or the batch a key")
        call = Call(
            method="POST",
            path=api_path("sends", "batch"),
            answer=BatchAnswer,
            body=BatchRequest(sends=[*sends]),
            idempotency_key=check_idempotency_key(key),
            repeatable=True,
        )
        return self._run(call)

    def send_many(
        self,
        sends: Items[SendRequest],
        *,
        on_progress: Callable[[ManyProgress], object] | None = None,
        patience: float = 300.0,
    ) -> Iterator[ManyResult]:
        """Send any number of mails, each once; yield their results in the same order.

        Make each with ``oncebox.client.send_request``, with event_type and entity_id: run it
        again after a crash, and what was stored before is not sent again. The mails are read and
        sent while you iterate, some in each request, and none is kept; ``on_progress`` is called
        after each request. A mail that is refused has an ``error``, and the others are sent.
        While the service is busy or away, a request is repeated for ``patience`` seconds.

        Raises: NoAnswer, TooManyRequests, Unauthenticated.
        """
        many = ManySends(on_progress, patience)
        return self._runner.run_in_chunks(sends, many.is_full, many.plan)

    def wait(self, id: str, *, within: float = 60.0) -> SendAnswer:
        """Return the outcome of a send, or its state after ``within`` seconds."""
        return self._run(send_plans.wait_plan(id, within))

    def list(
        self, *, state: SendState | str | None = None, transport: str | None = None
    ) -> Iterator[SendAnswer]:
        """Iterate over sends, newest first; an agent's key sees its own."""
        return self._runner.iterate(
            page_call(SendPage, SendQuery, "sends", state=state, transport=transport)
        )

    def page(
        self,
        *,
        state: SendState | str | None = None,
        transport: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> SendPage:
        """Return one page of sends, newest first."""
        filters = {"state": state, "transport": transport, "limit": limit, "cursor": cursor}
        return self._run(page_call(SendPage, SendQuery, "sends", **filters))

    def get(self, id: str) -> SendAnswer:
        """Return the state of a send."""
        return self._run(get_call(SendAnswer, "sends", id))

    def cancel(self, id: str, *, why: str = "") -> SendAnswer:
        """Cancel a send, as long as nothing of it was transmitted.

        Raises: StateConflict, NotFound.
        """
        return self._run(post_call(SendAnswer, CancelSend(why=why), "sends", id, "cancel"))

    def inspect(self, id: str) -> SendInspection:
        """Return everything known of a send except its content; for operators."""
        return self._run(get_call(SendInspection, "sends", id, "inspect"))

    def resolve(self, id: str, *, sent: bool, why: str, provider_id: str = "") -> SendAnswer:
        """Decide whether a send with an unknown outcome was sent; for operators.

        Raises: StateConflict, NotFound.
        """
        body = ResolveSend(sent=sent, why=why, provider_id=provider_id)
        return self._run(post_call(SendAnswer, body, "sends", id, "resolve"))

    def resend(self, id: str, *, why: str) -> SendAnswer:
        """Send again what was proven not sent, or once more if unknown; for operators.

        Raises: StateConflict, NotFound.
        """
        return self._run(post_call(SendAnswer, ResendSend(why=why), "sends", id, "resend"))


class Transports(Resource):
    """``client.transports``."""

    def all(self) -> TransportList:
        """Return all transports in the order in which they are used."""
        return self._run(get_call(TransportList, "transports"))

    def pause(self, name: str, *, why: str = "") -> Transport:
        """Pause a transport; mail for it waits."""
        body = ReasonBody(why=why)
        return self._run(post_call(Transport, body, "transports", name, "pause"))

    def resume(self, name: str, *, why: str = "") -> Transport:
        """Resume a paused transport."""
        body = ReasonBody(why=why)
        return self._run(post_call(Transport, body, "transports", name, "resume"))

    def remove(self, name: str) -> None:
        """Remove a transport with its secrets.

        Raises: StateConflict, while a send waits for it, is on its way or has an unknown outcome.
        """
        self._run(delete_call(type(None), "transports", name))


class Suppressions(Resource):
    """``client.suppressions``."""

    def list(self) -> Iterator[Suppression]:
        """Iterate over all addresses that get no mail."""
        return self._runner.iterate(page_call(SuppressionPage, ListQuery, "suppressions"))

    def page(self, *, limit: int | None = None, cursor: str | None = None) -> SuppressionPage:
        """Return one page of the addresses that get no mail."""
        return self._run(
            page_call(SuppressionPage, ListQuery, "suppressions", limit=limit, cursor=cursor)
        )

    def add(self, address: str, *, why: str = "") -> Suppression:
        """Suppress an address; a second time changes nothing."""
        body = NewSuppression(address=address, why=why)
        path = api_path("suppressions")
        call = Call(method="PUT", path=path, answer=Suppression, body=body, repeatable=True)
        return self._run(call)

    def find(self, address: str) -> Suppression:
        """Return the entry of a suppressed address.

        Raises: NotFound.
        """
        body = FindSuppression(address=address)
        call = post_call(Suppression, body, "suppressions", "find", repeatable=True)
        return self._run(call)

    def remove(self, id: str) -> Suppression:
        """Remove an entry by its id; the address gets mail again."""
        return self._run(delete_call(Suppression, "suppressions", id))
