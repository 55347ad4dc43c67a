# Generated from oncebox/client/asynchronous/__init__.py by `make sync-client`; do not edit.
"""`Client`, the blocking client: its resources are loaded and created on first use."""

import ssl
from functools import cached_property
from typing import TYPE_CHECKING, Self

from oncebox.client.core.send_plans import send_plan
from oncebox.client.sync.runner import SyncRunner
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import Instant, SendOptions
from oncebox.model.sends.send import OnUnknown, Retention
from oncebox.schemas.sends import SendAnswer

if TYPE_CHECKING:
    from oncebox.client.sync.admin import Domains, Keys, Tenants
    from oncebox.client.sync.attempts import Attempt, Attempts
    from oncebox.client.sync.deliveries import Deliveries, Quarantine
    from oncebox.client.sync.events import Events
    from oncebox.client.sync.inboxes import Artifacts, Inboxes, Messages
    from oncebox.client.sync.mailboxes import Mailboxes
    from oncebox.client.sync.sends import Sends, Suppressions, Transports
    from oncebox.client.sync.sources import Sources


class Sender:
    """``send``, for the client and its resource ``sends``."""

    _runner: SyncRunner

    def send(
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
        return self._runner.run(send_plan(email, wait, options))


class Client(Sender):
    """Calls a service; any number of threads may share a client.

    Without arguments, the address and the key come from ``ONCEBOX_URL`` and ``ONCEBOX_API_KEY``
    (or ``ONCEBOX_API_KEY_FILE``), else from the credentials file of ``oncebox serve``.
    ``timeout`` is the deadline of each call in seconds, retries included; ``tls`` is for your
    own certificates. Nothing is sent before the first call.

    Raises: ConfigInvalid, if there is no API key or an argument is invalid.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._runner = SyncRunner.connect(
            url,
            key,
            timeout=timeout,
            tls=tls,
        )

    def attempt(self, id: str) -> "Attempt":
        """Return the handle of an attempt; nothing is requested yet."""
        from oncebox.client.sync.attempts import Attempt

        return Attempt(self._runner, id)

    def within(self, seconds: float) -> "Client":
        """Return the same client with another deadline; they share their connections."""
        other = object.__new__(type(self))
        other._runner = self._runner.within(seconds)
        return other

    def close(self) -> None:
        """Close the connections."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client(url={self._runner.url!r})"

    @cached_property
    def sources(self) -> "Sources":
        """Webhook sources and their secrets."""
        from oncebox.client.sync.sources import Sources

        return Sources(self._runner)

    @cached_property
    def deliveries(self) -> "Deliveries":
        """Deliveries: list, inspect, replay, hold, claim, work."""
        from oncebox.client.sync.deliveries import Deliveries

        return Deliveries(self._runner)

    @cached_property
    def events(self) -> "Events":
        """The event log."""
        from oncebox.client.sync.events import Events

        return Events(self._runner)

    @cached_property
    def inboxes(self) -> "Inboxes":
        """Inboxes: create, read, wait for a code or a link."""
        from oncebox.client.sync.inboxes import Inboxes

        return Inboxes(self._runner)

    @cached_property
    def attempts(self) -> "Attempts":
        """Actions of attempts, call by call; ``attempt(…)`` returns a handle."""
        from oncebox.client.sync.attempts import Attempts

        return Attempts(self._runner)

    @cached_property
    def messages(self) -> "Messages":
        """Received messages."""
        from oncebox.client.sync.inboxes import Messages

        return Messages(self._runner)

    @cached_property
    def artifacts(self) -> "Artifacts":
        """Codes and links."""
        from oncebox.client.sync.inboxes import Artifacts

        return Artifacts(self._runner)

    @cached_property
    def mailboxes(self) -> "Mailboxes":
        """Mailboxes on other servers."""
        from oncebox.client.sync.mailboxes import Mailboxes

        return Mailboxes(self._runner)

    @cached_property
    def keys(self) -> "Keys":
        """API keys."""
        from oncebox.client.sync.admin import Keys

        return Keys(self._runner)

    @cached_property
    def tenants(self) -> "Tenants":
        """Tenants."""
        from oncebox.client.sync.admin import Tenants

        return Tenants(self._runner)

    @cached_property
    def quarantine(self) -> "Quarantine":
        """Rejected webhook requests."""
        from oncebox.client.sync.deliveries import Quarantine

        return Quarantine(self._runner)

    @cached_property
    def domains(self) -> "Domains":
        """Mail domains."""
        from oncebox.client.sync.admin import Domains

        return Domains(self._runner)

    @cached_property
    def sends(self) -> "Sends":
        """Outgoing mail."""
        from oncebox.client.sync.sends import Sends

        return Sends(self._runner)

    @cached_property
    def transports(self) -> "Transports":
        """Transports of outgoing mail."""
        from oncebox.client.sync.sends import Transports

        return Transports(self._runner)

    @cached_property
    def suppressions(self) -> "Suppressions":
        """Addresses that get no mail."""
        from oncebox.client.sync.sends import Suppressions

        return Suppressions(self._runner)
