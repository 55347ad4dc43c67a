"""`client.sends` (send, batch, wait, resolve), `client.transports`, `client.suppressions`."""

from collections.abc import AsyncIterator, Sequence

from oncebox.client.asynchronous.runner import AsyncRunner
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
from oncebox.errors import KeyInvalid
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import Instant, SendOptions
from oncebox.model.sends.send import OnUnknown, Retention, SendState
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

_SENDS = api_path("sends")
_SUPPRESSIONS = api_path("suppressions")


class AsyncSends:
    """``client.sends``."""

    def __init__(self, runner: AsyncRunner) -> None:
        """Make calls with this runner."""
        self._runner = runner

    async def send(
        self,
        email: Email,
        *,
        wait: float = 10.0,
        event_type: str = "",
        entity_id: str = "",
        version: int = 1,
        key: str | None = None,
        on_unknown: OnUnknown | str = "hold",
        send_at: Instant | None = None,
        valid_until: Instant | None = None,
        transport: str = "",
        retention: Retention | str = "transactional",
        interval: float = 0,
        attempt_id: str | None = None,
        answers: str | None = None,
        strict: bool = False,
    ) -> SendAnswer:
        """Send a mail once, and wait up to ``wait`` seconds for its outcome.

        Requests with the same ``event_type``, ``entity_id``, ``version`` and recipients, or with
        the same ``key``, are the same mail. The answer's ``status`` is the outcome;
        ``in_flight``: the mail is stored and not settled yet.

        Raises: InputRefused, NotFound.
        """
        options = SendOptions(
            event_type=event_type,
            entity_id=entity_id,
            version=version,
            key=key,
            on_unknown=on_unknown,
            send_at=send_at,
            valid_until=valid_until,
            transport=transport,
            retention=retention,
            interval=interval,
            attempt_id=attempt_id,
            answers=answers,
            strict=strict,
        )
        return await self._runner.run(send_plans.send_plan(email, wait, options))

    async def batch(self, sends: Sequence[SendRequest], *, key: str | None = None) -> BatchAnswer:
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
        return await self._runner.run(call)

    async def wait(self, id: str, *, within: float = 60.0) -> SendAnswer:
        """Return the outcome of a send, or its state after ``within`` seconds."""
        return await self._runner.run(send_plans.wait_plan(id, within))

    def list(
        self, *, state: SendState | str | None = None, transport: str | None = None
    ) -> AsyncIterator[SendAnswer]:
        """Iterate over sends, newest first; an agent's key sees its own."""
        return self._runner.iterate(
            page_call(SendPage, _SENDS, SendQuery, state=state, transport=transport)
        )

    async def page(
        self,
        *,
        state: SendState | str | None = None,
        transport: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> SendPage:
        """Return one page of sends, newest first."""
        return await self._runner.run(
            page_call(
                SendPage,
                _SENDS,
                SendQuery,
                state=state,
                transport=transport,
                limit=limit,
                cursor=cursor,
            )
        )

    async def get(self, id: str) -> SendAnswer:
        """Return the state of a send."""
        return await self._runner.run(get_call(SendAnswer, api_path("sends", id)))

    async def cancel(self, id: str, *, why: str = "") -> SendAnswer:
        """Cancel a send, as long as nothing of it was transmitted.

        Raises: StateConflict, NotFound.
        """
        path = api_path("sends", id, "cancel")
        return await self._runner.run(post_call(SendAnswer, path, CancelSend(why=why)))

    async def inspect(self, id: str) -> SendInspection:
        """Return everything known of a send except its content; for operators."""
        return await self._runner.run(get_call(SendInspection, api_path("sends", id, "inspect")))

    async def resolve(self, id: str, *, sent: bool, why: str, provider_id: str = "") -> SendAnswer:
        """Decide whether a send with an unknown outcome was sent; for operators.

        Raises: StateConflict, NotFound.
        """
        body = ResolveSend(sent=sent, why=why, provider_id=provider_id)
        return await self._runner.run(post_call(SendAnswer, api_path("sends", id, "resolve"), body))

    async def resend(self, id: str, *, why: str) -> SendAnswer:
        """Send again what was proven not sent, or once more if unknown; for operators.

        Raises: StateConflict, NotFound.
        """
        path = api_path("sends", id, "resend")
        return await self._runner.run(post_call(SendAnswer, path, ResendSend(why=why)))


class AsyncTransports:
    """``client.transports``."""

    def __init__(self, runner: AsyncRunner) -> None:
        """Make calls with this runner."""
        self._runner = runner

    async def all(self) -> TransportList:
        """Return all transports in the order in which they are used."""
        return await self._runner.run(get_call(TransportList, api_path("transports")))

    async def pause(self, name: str, *, why: str = "") -> Transport:
        """Pause a transport; mail for it waits."""
        path = api_path("transports", name, "pause")
        return await self._runner.run(post_call(Transport, path, ReasonBody(why=why)))

    async def resume(self, name: str, *, why: str = "") -> Transport:
        """Resume a paused transport."""
        path = api_path("transports", name, "resume")
        return await self._runner.run(post_call(Transport, path, ReasonBody(why=why)))


class AsyncSuppressions:
    """``client.suppressions``."""

    def __init__(self, runner: AsyncRunner) -> None:
        """Make calls with this runner."""
        self._runner = runner

    def list(self) -> AsyncIterator[Suppression]:
        """Iterate over all addresses that get no mail."""
        return self._runner.iterate(page_call(SuppressionPage, _SUPPRESSIONS, ListQuery))

    async def page(self, *, limit: int | None = None, cursor: str | None = None) -> SuppressionPage:
        """Return one page of the addresses that get no mail."""
        return await self._runner.run(
            page_call(SuppressionPage, _SUPPRESSIONS, ListQuery, limit=limit, cursor=cursor)
        )

    async def add(self, address: str, *, why: str = "") -> Suppression:
        """Suppress an address; a second time changes nothing."""
        body = NewSuppression(address=address, why=why)
        call = Call(
            method="PUT", path=_SUPPRESSIONS, answer=Suppression, body=body, repeatable=True
        )
        return await self._runner.run(call)

    async def find(self, address: str) -> Suppression:
        """Return the entry of a suppressed address.

        Raises: NotFound.
        """
        path = api_path("suppressions", "find")
        body = FindSuppression(address=address)
        return await self._runner.run(post_call(Suppression, path, body, repeatable=True))

    async def remove(self, id: str) -> Suppression:
        """Remove an entry by its id; the address gets mail again."""
        return await self._runner.run(delete_call(Suppression, api_path("suppressions", id)))
