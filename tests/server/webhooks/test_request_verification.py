"""A usual request is drafted as the general path drafts it."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from oncebox.errors import HeaderInvalid
from oncebox.ledger.deliveries.intake import Intake
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.webhooks.source import Source, SourceSecret
from oncebox.server.http.request_parsing import RequestHead
from oncebox.server.webhooks.request_verification import (
    CompiledSource,
    compile_source,
    draft_deliveries,
    draft_directly,
    verify_request,
)
from oncebox.settings import LimitSettings
from oncebox.webhooks import registry
from oncebox.webhooks.custom import basic_token_none
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.scheme import NO_PUBLIC_KEYS
from tests.webhooks.senders import NOW, SECRET, SENDERS, Sent
from tests.webhooks.test_compilation import COMPILED

SENT = {name: make() for name, make in SENDERS.items() if name in COMPILED}
ADDRESS = "192.0.2.7"
_LIMITS = LimitSettings()


def _drafts(
    sent: Sent, limits: LimitSettings = _LIMITS, **fields: Any
) -> tuple[NewDelivery | None, NewDelivery]:
    """Return what both paths draft."""
    return _direct_draft(sent, limits, **fields), _general_draft(sent, limits, **fields)


def _direct_draft(sent: Sent, limits: LimitSettings = _LIMITS, **fields: Any) -> NewDelivery | None:
    headers = _fields(sent)
    head = RequestHead(
        "POST", "/in/p", b"/in/p", b"", "1.1", headers, dict(headers), len(sent.body), True
    )
    compiled = _compiled(sent, **fields)
    assert compiled.fast is not None
    return draft_directly(
        _intake(limits),
        compiled,
        compiled.fast,
        head=head,
        body=sent.body,
        address=ADDRESS,
        now=NOW,
    )


def _general_draft(sent: Sent, limits: LimitSettings, **fields: Any) -> NewDelivery:
    compiled = _compiled(sent, **fields)
    text = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in _fields(sent)]
    request = WebhookRequest(url=sent.url, headers=tuple(text), body=sent.body)
    verified = verify_request(compiled, request, address=ADDRESS, now=NOW, keys=NO_PUBLIC_KEYS)
    (expected,) = draft_deliveries(_intake(limits), compiled, request, verified)
    return expected


def _intake(limits: LimitSettings) -> Intake:
    database: Any = SimpleNamespace(clock=lambda: NOW, kind="sqlite", round_trips=False, writers=1)
    telemetry: Any = None
    return Intake(
        database, telemetry, tenant="t", limits=limits, new_id=lambda prefix: f"{prefix}_1"
    )


def _compiled(sent: Sent, **fields: Any) -> CompiledSource:
    secrets = tuple(
        SourceSecret(id=f"sec_{number}", value=value)
        for number, value in enumerate(("another", *sent.secrets))
    )
    source = Source(
        tenant="t", name="hooks", public_id="p", scheme=sent.scheme, secrets=secrets, **fields
    )
    return compile_source(source)


def _fields(sent: Sent) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in sent.headers.items()
    ]


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_a_usual_request_is_stored_as_the_general_path_stores_it(sent: Sent) -> None:
    found, expected = _drafts(sent, replay="drop", redelivery="count", cidrs=("192.0.2.0/24",))

    assert found == expected
    assert expected.secret_id == "sec_1"


def test_a_request_from_an_address_that_is_not_allowed_is_left_to_the_general_path() -> None:
    sent = SENT["github"]

    assert _direct_draft(sent, cidrs=("192.0.2.0/24",)) is not None
    assert _direct_draft(sent, cidrs=("198.51.100.0/24",)) is None


@pytest.mark.parametrize("limit", ["headers", "header_count"])
def test_headers_beyond_a_limit_are_left_to_the_general_path_which_refuses_them(
    limit: str,
) -> None:
    sent = SENT["github"]
    flat = [*sent.headers, *sent.headers.values()]
    least = {"headers": sum(map(len, flat)), "header_count": len(sent.headers)}[limit]
    room = {"headers": 10 * len(sent.headers), "header_count": 0}[limit]  # for quotes and commas

    found, expected = _drafts(sent, LimitSettings(**{limit: least + room}))
    assert found == expected
    with pytest.raises(HeaderInvalid):
        _drafts(sent, LimitSettings(**{limit: least - 1}))
    assert _direct_draft(sent, LimitSettings(**{limit: least - 1})) is None


def test_a_source_that_expects_a_sender_is_not_compiled() -> None:
    secrets = (SourceSecret(id="sec_1", value=SECRET),)
    source = Source(
        tenant="t", name="hooks", public_id="p", scheme="github", secrets=secrets,
        expect={"$.repository.id": "1"},
    )  # fmt: skip

    assert compile_source(source).fast is None


@pytest.mark.parametrize(
    ("scheme", "secret", "header", "value"),
    [
        ("gitlab", "s3cret-token", "X-Gitlab-Token", "s3cret-token"),
        ("token", "s3cret-token", "Authorization", "Bearer s3cret-token"),
        ("token", "s3cret-token", "X-Hook", "s3cret-token"),
        ("basic", "me:s3cret-token", "AUTHORIZATION", "Basic bWU6czNjcmV0LXRva2Vu"),
        ("postmark", "me:s3cret-token", "Authorization", "Basic bWU6czNjcmV0LXRva2Vu"),
    ],
)
def test_a_header_that_holds_the_secret_is_not_stored_with_the_delivery(
    scheme: str, secret: str, header: str, value: str
) -> None:
    options = {"header": header} if header == "X-Hook" else {}
    secrets = (SourceSecret(id="sec_1", value=secret),)
    source = Source(
        tenant="t", name="hooks", public_id="p", scheme=scheme, secrets=secrets, options=options
    )
    compiled = compile_source(source)
    headers = (("Host", "here"), (header, value), ("X-Id", "1"))
    request = WebhookRequest(url="http://here/in/p", headers=headers, body=b"{}")
    verified = verify_request(compiled, request, address=ADDRESS, now=NOW, keys=NO_PUBLIC_KEYS)
    (draft,) = draft_deliveries(_intake(_LIMITS), compiled, request, verified)
    assert msgspec.json.decode(draft.headers) == [
        ["Host", "here"], [header, "[removed]"], ["X-Id", "1"],
    ]  # fmt: skip


def test_a_secret_under_another_name_is_found() -> None:
    secrets = (SourceSecret(id="sec_1", value="s3cret-token"),)
    compiled = compile_source(
        Source(tenant="t", name="hooks", public_id="p", scheme="gitlab", secrets=secrets)
    )

    found = compiled.headers_with_secrets((("Host", "here"), ("X-Gitlab-Tokn", "s3cret-token")))

    assert found == {"x-gitlab-token", "x-gitlab-tokn"}


def test_every_scheme_whose_header_holds_the_secret_says_so() -> None:
    compared = {basic_token_none.verify_basic, basic_token_none.verify_token}
    known = [registry.find_scheme(name) for name in registry.scheme_names()]
    assert {each.name for each in known if each.sends_secret} == {
        each.name for each in known if each.verifier in compared
    }
