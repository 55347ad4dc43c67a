"""`AsyncClient`, the asyncio client: its resources are loaded and created on first use.

``oncebox.client.sync`` is generated from this package, except for its ``runner``: run
``make sync-client`` after a change.
"""

import ssl
from functools import cached_property
from typing import TYPE_CHECKING, Self

import httpx2  # async only

from oncebox.client.asynchronous.runner import AsyncRunner
from oncebox.client.core.send_plans import send_plan
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import Instant, SendOptions
from oncebox.model.sends.send import OnUnknown, Retention
from oncebox.schemas.sends import SendAnswer

if TYPE_CHECKING:
    from oncebox.client.asynchronous.admin import AsyncDomains, AsyncKeys, AsyncTenants
    from oncebox.client.asynchronous.attempts import AsyncAttempt, AsyncAttempts
    from oncebox.client.asynchronous.deliveries import AsyncDeliveries, AsyncQuarantine
    from oncebox.client.asynchronous.events import AsyncEvents
    from oncebox.client.asynchronous.inboxes import AsyncArtifacts, AsyncInboxes, AsyncMessages
    from oncebox.client.asynchronous.mailboxes import AsyncMailboxes
    from oncebox.client.asynchronous.sends import AsyncSends, AsyncSuppressions, AsyncTransports
    from oncebox.client.asynchronous.sources import AsyncSources


class AsyncSender:
    """``send``, for the client and its resource ``sends``."""

    _runner: AsyncRunner

    async def send(
        self,
        email: Email,
        *,
        wait: float = 10.0,
        event_type: str = "",
        entity_id: str = "",
        version: int = 1,
        key: str | None = None,
        on_unknown: OnUnknown | str = "replay",
        send_at: Instant | None = None,
        valid_until: Instant | None = None,
        transport: str = "",
        failover_group: str = "",
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
            failover_group=failover_group,
            retention=retention,
            interval=interval,
            attempt_id=attempt_id,
            answers=answers,
            strict=strict,
        )
        return await self._runner.run(send_plan(email, wait, options))


class AsyncClient(AsyncSender):
    """Calls a service; any number of tasks of one event loop may share a client.

    Without arguments, the address and the key come from ``ONCEBOX_URL`` and ``ONCEBOX_API_KEY``
    (or ``ONCEBOX_API_KEY_FILE``), else from the credentials file of ``oncebox serve``.
    ``timeout`` is the deadline of each call in seconds, retries included; ``tls`` is for your
    own certificates. Nothing is sent before the first call.

    Raises: ConfigInvalid, if there is no API key or an argument is invalid.

    Async only: ``transport`` replaces the network, for example ``httpx2.ASGITransport`` for a
    service in the same process.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        tls: ssl.SSLContext | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,  # async only
    ) -> None:
        self._runner = AsyncRunner.connect(
            url,
            key,
            timeout=timeout,
            tls=tls,
            transport=transport,  # async only
        )

    def attempt(self, id: str) -> "AsyncAttempt":
        """Return the handle of an attempt; nothing is requested yet."""
        from oncebox.client.asynchronous.attempts import AsyncAttempt

        return AsyncAttempt(self._runner, id)

    def within(self, seconds: float) -> "AsyncClient":
        """Return the same client with another deadline; they share their connections."""
        other = object.__new__(type(self))
        other._runner = self._runner.within(seconds)
        return other

    async def close(self) -> None:
        """Close the connections."""
        await self._runner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient(url={self._runner.url!r})"

    @cached_property
    def sources(self) -> "AsyncSources":
        """Webhook sources and their secrets."""
        from oncebox.client.asynchronous.sources import AsyncSources

        return AsyncSources(self._runner)

    @cached_property
    def deliveries(self) -> "AsyncDeliveries":
        """Deliveries: list, inspect, replay, hold, claim, work."""
        from oncebox.client.asynchronous.deliveries import AsyncDeliveries

        return AsyncDeliveries(self._runner)

    @cached_property
    def events(self) -> "AsyncEvents":
        """The event log."""
        from oncebox.client.asynchronous.events import AsyncEvents

        return AsyncEvents(self._runner)

    @cached_property
    def inboxes(self) -> "AsyncInboxes":
        """Inboxes: create, read, wait for a code or a link."""
        from oncebox.client.asynchronous.inboxes import AsyncInboxes

        return AsyncInboxes(self._runner)

    @cached_property
    def attempts(self) -> "AsyncAttempts":
        """Actions of attempts, call by call; ``attempt(…)`` returns a handle."""
        from oncebox.client.asynchronous.attempts import AsyncAttempts

        return AsyncAttempts(self._runner)

    @cached_property
    def messages(self) -> "AsyncMessages":
        """Received messages."""
        from oncebox.client.asynchronous.inboxes import AsyncMessages

        return AsyncMessages(self._runner)

    @cached_property
    def artifacts(self) -> "AsyncArtifacts":
        """Codes and links."""
        from oncebox.client.asynchronous.inboxes import AsyncArtifacts

        return AsyncArtifacts(self._runner)

    @cached_property
    def mailboxes(self) -> "AsyncMailboxes":
        """Mailboxes on other servers."""
        from oncebox.client.asynchronous.mailboxes import AsyncMailboxes

        return AsyncMailboxes(self._runner)

    @cached_property
    def keys(self) -> "AsyncKeys":
        """API keys."""
        from oncebox.client.asynchronous.admin import AsyncKeys

        return AsyncKeys(self._runner)

    @cached_property
    def tenants(self) -> "AsyncTenants":
        """Tenants."""
        from oncebox.client.asynchronous.admin import AsyncTenants

        return AsyncTenants(self._runner)

    @cached_property
    def quarantine(self) -> "AsyncQuarantine":
        """Rejected webhook requests."""
        from oncebox.client.asynchronous.deliveries import AsyncQuarantine

        return AsyncQuarantine(self._runner)

    @cached_property
    def domains(self) -> "AsyncDomains":
        """Mail domains."""
        from oncebox.client.asynchronous.admin import AsyncDomains

        return AsyncDomains(self._runner)

    @cached_property
    def sends(self) -> "AsyncSends":
        """Outgoing mail."""
        from oncebox.client.asynchronous.sends import AsyncSends

        return AsyncSends(self._runner)

    @cached_property
    def transports(self) -> "AsyncTransports":
        """Transports of outgoing mail."""
        from oncebox.client.asynchronous.sends import AsyncTransports

        return AsyncTransports(self._runner)

    @cached_property
    def suppressions(self) -> "AsyncSuppressions":
        """Addresses that get no mail."""
        from oncebox.client.asynchronous.sends import AsyncSuppressions

        return AsyncSuppressions(self._runner)
