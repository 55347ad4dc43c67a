"""Webhook verification: compiled sources, signature checks, events drafted for the ledger."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import msgspec

from oncebox.errors import ConfigInvalid, SignatureInvalid
from oncebox.ledger.admin.source_cache import SourceCache
from oncebox.ledger.deliveries.intake import (
    ArrivalFields,
    BatchElement,
    Intake,
    SharedArrivalFields,
)
from oncebox.model.deliveries.delivery import Headers, LaneRules, NewDelivery, encode_headers
from oncebox.model.webhooks.quarantine import RejectedRequest
from oncebox.model.webhooks.source import WEBHOOK_CHANNEL, Source
from oncebox.server.http.request_parsing import RequestHead
from oncebox.webhooks import inbound, registry
from oncebox.webhooks.compilation import CompiledScheme, compile_scheme
from oncebox.webhooks.event_parsing import WebhookEvent, lane_position, parse_events
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.inbound import InboundProvider
from oncebox.webhooks.paths import json_field
from oncebox.webhooks.scheme import NO_PUBLIC_KEYS, PublicKeys, Scheme, SchemeOptions
from oncebox.webhooks.verification import (
    Freshness,
    Verdict,
    check_scheme,
    remove_secrets,
    secret_header_names,
    source_options,
    verify,
)

Network = IPv4Network | IPv6Network


class CompiledSource(msgspec.Struct, frozen=True):
    """A source, prepared for the verification of its requests."""

    source: Source
    scheme: Scheme
    options: SchemeOptions
    #: in the order in which they are tried, with their ids in ``secret_ids``
    secrets: tuple[str, ...]
    secret_ids: tuple[str, ...]
    networks: tuple[Network, ...]
    #: what to do with a genuine request that arrives late: ``hold`` or ``run``
    late: str
    lanes: LaneRules
    #: verifies the usual requests; None if each takes the general path
    fast: CompiledScheme | None
    #: headers that hold a secret of the source, in lower case
    secret_headers: frozenset[str] = frozenset()
    #: the provider whose mail is in the requests; None if they are events
    inbound: InboundProvider | None = None
    #: fetches mail that a request only names
    fetch_key: str = ""
    #: whether a usual request is accepted without a task of its own
    is_direct: bool = True

    @property
    def mail_provider(self) -> InboundProvider:
        """The provider of a source that brings mail."""
        assert self.inbound is not None  # noqa: S101 - callers have checked it
        return self.inbound

    def headers_with_secrets(self, headers: Headers) -> frozenset[str]:
        """Return the headers that hold a secret, also under a name that the scheme does not use."""
        return self.secret_headers.union(
            name.lower()
            for name, value in headers
            if any(secret and secret in value for secret in self.secrets)
        )

    def allows_address(self, address: str | None) -> bool:
        """Say whether a request may come from an address; None is not checked."""
        if not self.networks or address is None:
            return True
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        return any(ip in network for network in self.networks)


def compile_source(source: Source) -> CompiledSource:
    """Return a source with its scheme, options and networks looked up."""
    scheme = registry.find_scheme(source.scheme)
    options = source_options(
        scheme,
        source.options,
        public_url=source.public_url or "",
        allow_unsigned=source.allow_unsigned,
    )
    provider = _mail_provider(source)
    keys = [each.value for each in source.secrets if provider and provider.is_fetch_key(each.value)]
    active = [each for each in source.secrets if each.value not in keys]
    secrets = tuple(secret.value for secret in active)
    check_scheme(scheme, secrets, options)
    return CompiledSource(
        source=source,
        scheme=scheme,
        options=options,
        secrets=secrets,
        secret_ids=tuple(secret.id for secret in active),
        networks=tuple(ip_network(text, strict=False) for text in source.cidrs),
        late=source.late or scheme.late,
        lanes=source.lane_rules,
        fast=compile_scheme(scheme, secrets, options) if not source.expect else None,
        secret_headers=secret_header_names(scheme, options),
        inbound=provider,
        fetch_key=keys[0] if keys else "",
        is_direct=scheme.handshake is None and source.order_by is None and provider is None,
    )


def brings_mail(source: Source) -> bool:
    """Say whether the requests of a source are mail for inboxes."""
    return source.inbound is not False and source.scheme in inbound.PROVIDERS


def _mail_provider(source: Source) -> InboundProvider | None:
    """Return the provider whose mail a source brings to inboxes; None if it brings events."""
    if source.inbound is False:
        return None
    provider = inbound.PROVIDERS.get(source.scheme)
    if provider is None and (source.inbound or source.inbox):
        raise ConfigInvalid(
            f"the scheme {source.scheme} brings no mail; choose one of "
            f"{', '.join(inbound.PROVIDERS)}, or unset inbound and inbox"
        )
    return provider


class VerifiedRequest(msgspec.Struct, frozen=True):
    """A verified request and its events."""

    verdict: Verdict
    #: the id of the matching secret, if it is one of the source's
    secret_id: str | None
    events: tuple[WebhookEvent, ...]
    #: whether the events are elements of one request
    batch: bool


def verify_request(
    compiled: CompiledSource,
    request: WebhookRequest,
    *,
    address: str | None,
    now: int,
    keys: PublicKeys,
) -> VerifiedRequest:
    """Verify a request and return its events; ``address`` is None if it is no longer known.

    Raises: SignatureInvalid, with a reason; KeyFetchRequired.
    """
    if not compiled.allows_address(address):
        raise SignatureInvalid("address_not_allowed")
    verdict = verify(
        compiled.scheme, request, compiled.secrets, now=now, options=compiled.options, keys=keys
    )
    if compiled.source.expect:
        _check_expected_sender(compiled, request)
    parsed = parse_events(compiled.scheme, request, compiled.options)
    late = verdict.freshness is Freshness.LATE
    ids_signed = all(event.id is not None and event.id_signed for event in parsed.events)
    if late and compiled.late != "run" and not ids_signed:
        # Without a signed id it cannot be distinguished from a replay.
        raise SignatureInvalid("stale")
    secret_id = compiled.secret_ids[verdict.secret_index] if verdict.secret_index >= 0 else None
    return VerifiedRequest(verdict, secret_id, parsed.events, parsed.batch)


def _check_expected_sender(compiled: CompiledSource, request: WebhookRequest) -> None:
    """Refuse a genuine request of another account or repository."""
    for path, wanted in compiled.source.expect.items():
        found: object
        if path.startswith("$"):
            found = json_field(request.body, path)
        else:
            found = request.headers_by_name.get(path.lower())
        if found is None or str(found) != wanted:
            raise SignatureInvalid("unexpected_sender")


#: returns the deliveries of the mail in a verified request
DraftMail = Callable[[CompiledSource, WebhookRequest], Awaitable[Sequence[NewDelivery]]]


async def store_events(
    intake: Intake, compiled: CompiledSource, request: WebhookRequest, verified: VerifiedRequest
) -> None:
    """Return when every event of the request is on disk."""
    name = compiled.source.name
    if _is_sliced(verified):
        elements = [_batch_element(compiled, request, event) for event in verified.events]
        shared = _shared_arguments(compiled, request, verified)
        await intake.accept_many(name, elements, body=request.body, **shared)
        return
    arrivals = [_delivery_arguments(compiled, request, verified, each) for each in verified.events]
    if len(arrivals) == 1:
        await intake.accept(name, **arrivals[0])
    else:
        await asyncio.gather(*(intake.accept(name, **arrival) for arrival in arrivals))


def draft_directly(  # noqa: PLR0913 - a request in its parts
    intake: Intake,
    compiled: CompiledSource,
    verify: CompiledScheme,
    *,
    head: RequestHead,
    body: bytes,
    address: str,
    now: int,
) -> NewDelivery | None:
    """Verify a usual request of a source without lanes; return its delivery, or None."""
    source, limits = compiled.source, intake.limits
    event = verify(head.by_name, body, now)
    if event is None or (compiled.networks and not compiled.allows_address(address)):
        return None
    headers = encode_headers(header_text(head.fields))
    if len(headers) > limits.headers or len(head.fields) > limits.header_count:
        return None
    return intake.draft(
        source.name,
        key=event.id,
        body=body,
        headers=headers,
        type_=event.type,
        tenant=source.tenant,
        fingerprint=event.fingerprint,
        unsigned=not event.id_signed,
        road=WEBHOOK_CHANNEL,
        redelivery=source.redelivery,
        on_replay=source.replay,
        verdict=event.freshness,
        secret_id=compiled.secret_ids[event.secret_index],
    )


def header_text(fields: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """Return headers as text, in order, without loss."""
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields])


def draft_deliveries(
    intake: Intake, compiled: CompiledSource, request: WebhookRequest, verified: VerifiedRequest
) -> list[NewDelivery]:
    """Return the deliveries of a request."""
    name = compiled.source.name
    if not _is_sliced(verified):
        return [
            intake.draft(name, **_delivery_arguments(compiled, request, verified, event))
            for event in verified.events
        ]
    elements = [_batch_element(compiled, request, event) for event in verified.events]
    shared = _shared_arguments(compiled, request, verified)
    found = intake.drafts(name, elements, body=request.body, **shared)
    return [each for each in found if isinstance(each, NewDelivery)]


def _is_sliced(verified: VerifiedRequest) -> bool:
    """Say whether the events are slices of the body; some are only there in encoded form."""
    return verified.batch and all(event.content is None for event in verified.events)


def _delivery_arguments(
    compiled: CompiledSource,
    request: WebhookRequest,
    verified: VerifiedRequest,
    event: WebhookEvent,
) -> ArrivalFields:
    body = request.body if event.content is None else event.content
    order_key, sequence = lane_position(compiled.source, body)
    return {
        **_shared_arguments(compiled, request, verified),
        "key": event.id,
        "body": body,
        "type_": event.type,
        "fingerprint": event.fingerprint,
        "unsigned": not event.id_signed,
        "order_key": order_key,
        "sequence": sequence,
        "echo_of": None,
    }


def _shared_arguments(
    compiled: CompiledSource, request: WebhookRequest, verified: VerifiedRequest
) -> SharedArrivalFields:
    source = compiled.source
    late = verified.verdict.freshness is Freshness.LATE
    return {
        "headers": _without_secrets(compiled, request),
        "road": WEBHOOK_CHANNEL,
        "tenant": source.tenant,
        "redelivery": source.redelivery,
        "on_replay": source.replay,
        "verdict": verified.verdict.freshness.value,
        "secret_id": verified.secret_id,
        "hold_reason": "late" if late and compiled.late == "hold" else None,
        "rules": compiled.lanes,
    }


def _without_secrets(compiled: CompiledSource, request: WebhookRequest) -> Headers:
    secret = compiled.secret_headers
    return remove_secrets(request.headers, secret) if secret else request.headers


def _batch_element(
    compiled: CompiledSource, request: WebhookRequest, event: WebhookEvent
) -> BatchElement:
    body = request.body[event.start : event.start + event.size]
    order_key, sequence = lane_position(compiled.source, body)
    return BatchElement(
        start=event.start,
        size=event.size,
        key=event.id,
        type=event.type,
        fingerprint=event.fingerprint,
        unsigned=not event.id_signed,
        order_key=order_key,
        sequence=sequence,
    )


async def verify_again(
    sources: SourceCache, intake: Intake, rejected: RejectedRequest, draft_mail: DraftMail
) -> Sequence[NewDelivery]:
    """Verify a rejected request again, without fetching public keys; return its deliveries.

    Raises: SignatureInvalid, KeyFetchRequired, if it is still not authentic; ConfigInvalid.
    """
    await sources.refresh()
    entry = sources.find(rejected.tenant, rejected.source)
    if entry is None or not entry.ready:
        raise ConfigInvalid(
            f"there is no source {rejected.source!r} that could check it; fix it first"
        )
    compiled = compile_source(entry.source)
    if compiled.networks and rejected.reason == "address_not_allowed":
        raise SignatureInvalid(rejected.reason)  # the address was not stored
    request = WebhookRequest(
        method=rejected.method, url=rejected.url, headers=rejected.headers, body=rejected.body
    )
    verified = verify_request(
        compiled, request, address=None, now=rejected.received_at, keys=NO_PUBLIC_KEYS
    )
    if compiled.inbound is not None:
        return await draft_mail(compiled, request)
    return draft_deliveries(intake, compiled, request, verified)
