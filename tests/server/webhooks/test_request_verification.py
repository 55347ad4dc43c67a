"""A usual request is drafted as the general path drafts it."""

from types import SimpleNamespace
from typing import Any

import pytest

from oncebox.ledger.deliveries.intake import Intake
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.webhooks.source import Source, SourceSecret
from oncebox.server.http.request_parsing import RequestHead
from oncebox.server.webhooks.request_verification import (
    compile_source,
    draft_deliveries,
    draft_directly,
    verify_request,
)
from oncebox.settings import LimitSettings
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.scheme import NO_PUBLIC_KEYS
from tests.webhooks.senders import NOW, SECRET, SENDERS, Sent
from tests.webhooks.test_compilation import COMPILED

SENT = {name: make() for name, make in SENDERS.items() if name in COMPILED}
ADDRESS = "192.0.2.7"


def _drafts(sent: Sent, **fields: Any) -> tuple[NewDelivery | None, NewDelivery]:
    """Return what both paths draft."""
    database: Any = SimpleNamespace(clock=lambda: NOW, kind="sqlite", round_trips=False, writers=1)
    telemetry: Any = None
    intake = Intake(
        database, telemetry, tenant="t", limits=LimitSettings(), new_id=lambda prefix: f"{prefix}_1"
    )
    secrets = tuple(
        SourceSecret(id=f"sec_{number}", value=value)
        for number, value in enumerate(("another", *sent.secrets))
    )
    compiled = compile_source(
        Source(
            tenant="t",
            name="hooks",
            public_id="p",
            scheme=sent.scheme,
            secrets=secrets,
            **fields,
        )
    )
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in sent.headers.items()
    ]
    head = RequestHead(
        "POST", "/in/p", b"/in/p", b"", "1.1", headers, dict(headers), len(sent.body), True
    )
    text = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
    request = WebhookRequest(url=sent.url, headers=text, body=sent.body)
    verified = verify_request(compiled, request, address=ADDRESS, now=NOW, keys=NO_PUBLIC_KEYS)
    (expected,) = draft_deliveries(intake, compiled, request, verified)
    assert compiled.fast is not None
    found = draft_directly(
        intake, compiled, compiled.fast, head=head, body=sent.body, address=ADDRESS, now=NOW
    )
    return found, expected


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_a_usual_request_is_stored_as_the_general_path_stores_it(sent: Sent) -> None:
    found, expected = _drafts(sent, replay="drop", redelivery="count", cidrs=("192.0.2.0/24",))

    assert found == expected
    assert expected.secret_id == "sec_1"


def test_a_request_from_an_address_that_is_not_allowed_is_left_to_the_general_path() -> None:
    sent = SENT["github"]
    database: Any = SimpleNamespace(clock=lambda: NOW, kind="sqlite", round_trips=False, writers=1)
    telemetry: Any = None
    intake = Intake(database, telemetry, tenant="t", limits=LimitSettings())
    secrets = (SourceSecret(id="sec_1", value=SECRET),)
    compiled = compile_source(
        Source(
            tenant="t", name="hooks", public_id="p", scheme="github", secrets=secrets,
            cidrs=("198.51.100.0/24",),
        )
    )  # fmt: skip
    headers = [(name.lower().encode(), value.encode()) for name, value in sent.headers.items()]
    head = RequestHead("POST", "/in/p", b"/in/p", b"", "1.1", headers, dict(headers), 1, True)
    assert compiled.fast is not None

    assert compiled.fast(dict(headers), sent.body, NOW) is not None
    assert (
        draft_directly(
            intake, compiled, compiled.fast, head=head, body=sent.body, address=ADDRESS, now=NOW
        )
        is None
    )


def test_a_source_that_expects_a_sender_is_not_compiled() -> None:
    secrets = (SourceSecret(id="sec_1", value=SECRET),)
    source = Source(
        tenant="t", name="hooks", public_id="p", scheme="github", secrets=secrets,
        expect={"$.repository.id": "1"},
    )  # fmt: skip

    assert compile_source(source).fast is None
