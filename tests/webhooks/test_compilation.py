"""A compiled scheme says what the general path says, or nothing."""

import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncebox.cli.commands.hook import Vector, _vector_request, _vector_scheme, _vector_secrets
from oncebox.errors import KeyFetchRequired, SignatureInvalid
from oncebox.webhooks import registry
from oncebox.webhooks.compilation import VerifiedEvent, compile_scheme
from oncebox.webhooks.event_parsing import parse_events
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.scheme import NO_OPTIONS, Scheme, SchemeOptions
from oncebox.webhooks.verification import Freshness, verify
from tests.support.shared import shared
from tests.webhooks.senders import BODY, NOW, SECONDS, SECRET, SENDERS, Sent, mac

#: schemes whose usual requests need nothing but an HMAC, headers and JSON
COMPILED = {
    "bitbucket", "bitbucket-server", "calcom", "cloudflare-email", "elevenlabs", "generic-hmac",
    "gitea", "github", "github-legacy", "gogs", "hookdeck", "intercom", "mailersend", "outpost",
    "paddle", "pagerduty", "shopify", "shopify-events", "stripe", "typeform", "vercel", "webflow",
    "woocommerce", "zendesk", "zendesk-legacy-order",
}  # fmt: skip
SENT = {name: make() for name, make in SENDERS.items() if name in COMPILED}


def general(
    scheme: Scheme,
    request: WebhookRequest,
    secrets: Sequence[str],
    options: SchemeOptions,
    now: int,
) -> VerifiedEvent | None:
    """Return what the general path says, if it is an authentic request with one event, in time."""
    try:
        verdict = verify(scheme, request, secrets, now=now, options=options)
    except (SignatureInvalid, KeyFetchRequired):
        return None
    parsed = parse_events(scheme, request, options)
    if parsed.batch or len(parsed.events) != 1 or verdict.freshness is Freshness.LATE:
        return None
    (event,) = parsed.events
    assert event.content is None
    return VerifiedEvent(
        verdict.secret_index, verdict.freshness.value, event.id, event.id_signed, event.type,
        event.fingerprint,
    )  # fmt: skip


def both(
    sent: Sent, *, now: int = NOW, secrets: tuple[str, ...] | None = None
) -> tuple[VerifiedEvent | None, VerifiedEvent | None]:
    """Return what the compiled scheme says, and what the general path says."""
    secrets = sent.secrets if secrets is None else secrets
    compiled = compile_scheme(sent.table, secrets, sent.options)
    table = {
        name.lower().encode("latin-1"): value.encode("latin-1")
        for name, value in sent.headers.items()
    }
    found = compiled(table, sent.body, now) if compiled is not None else None
    return found, general(sent.table, sent.request, secrets, sent.options, now)


def test_the_schemes_that_compile_are_these() -> None:
    names = {
        name
        for name in registry.BUILT_IN_SCHEMES
        if compile_scheme(registry.find_scheme(name), (SECRET,)) is not None
    }

    assert names == COMPILED


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_what_a_sender_signed_is_verified_without_the_general_path(sent: Sent) -> None:
    found, expected = both(sent)

    assert found is not None
    assert found == expected


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_the_secret_that_fits_is_the_same(sent: Sent) -> None:
    found, expected = both(sent, secrets=("", "another", *sent.secrets))

    assert found is not None
    assert found == expected


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.differing_executors])
def test_whatever_is_changed_it_never_says_anything_else(sent: Sent, data: st.DataObject) -> None:
    changed = _changed(sent, data)
    now = NOW + data.draw(st.sampled_from([0, 0, 0, 1, -1, 299_999, 300_001, -300_001, 86_400_000]))

    found, expected = both(changed, now=now)

    assert found is None or found == expected


def _changed(sent: Sent, data: st.DataObject) -> Sent:
    name = data.draw(
        st.sampled_from([*sent.headers, "x-extra", "content-encoding", "X-Shopify-Test"])
    )
    value = sent.headers.get(name, "")
    spellings = (
        value, f" {value}\t", f"{value},", f"{value},{value}", value.upper(), value[:-1], "",
        f"{value}\xe9", f"\x1f{value}", f"t={SECONDS},{value}", f"v0={'0' * 64},{value}",
        ",".join([value] * 9), "gzip", f"{value} {value}",
    )  # fmt: skip
    other = data.draw(st.sampled_from(spellings))
    body = data.draw(st.sampled_from([sent.body, sent.body + b" ", b"", b"{}"]))
    headers = {**sent.headers, name: other}
    if data.draw(st.booleans()):
        headers = {key: each for key, each in headers.items() if key != name or not value}
    return sent.but(headers=headers, body=body)


TEXTS = st.text(st.characters(max_codepoint=255), max_size=8) | st.just("x" * 401)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
BODIES = (
    st.dictionaries(
        st.sampled_from(["id", "type", "data", "delivery"]), SCALARS | st.lists(SCALARS)
    ).map(lambda found: json.dumps(found).encode())
    | st.binary(max_size=30)
    | st.just(b"[" * 2_000)
)
PATHS = st.sampled_from([
    "", "$.id", "$.data.id", "$.data[0]", "$.data[*]", "header:x-id", "header:X-ID", "=fixed",
    "header:x-id?+$.id", "$.id+$.type?", "$",
])  # fmt: skip


@given(
    body=BODIES,
    id_=PATHS,
    type_=PATHS,
    header=st.none() | TEXTS,
    volatile=st.sampled_from([(), ("$.delivery",), ("$.data.id", "$.id")]),
    content=st.sampled_from(["", "{body}", "{header:x-id}|{body}", "{timestamp}.{body}"]),
    stamp=st.sampled_from(["", SECONDS, "1", "+1", f"{SECONDS}.0"]),
)
@settings(max_examples=400)
def test_ids_types_and_fingerprints_are_the_same_for_any_body(  # noqa: PLR0917 - a scheme in its parts
    body: bytes,
    id_: str,
    type_: str,
    header: str | None,
    volatile: tuple[str, ...],
    content: str,
    stamp: str,
) -> None:
    options = SchemeOptions(
        id=id_, type=type_, volatile=volatile, content=content, header="x-sig",
        timestamp="x-time" if "timestamp" in content else "", window=300,
    )  # fmt: skip
    message = {
        "{header:x-id}|{body}": (header or "").encode("latin-1") + b"|" + body,
        "{timestamp}.{body}": stamp.encode() + b"." + body,
    }.get(content, body)
    headers = {"X-Sig": mac(message).hex()}
    headers |= {} if header is None else {"X-Id": header}
    headers |= {"X-Time": stamp} if stamp else {}
    sent = Sent("generic-hmac", headers, body=body, options=options)

    found, expected = both(sent)

    assert found is None or found == expected
    if header is None or (header.isascii() and header.isprintable() and header.strip() == header):
        assert found == expected


def test_every_vector_that_compiles_agrees() -> None:
    compiled_count = 0
    for each in json.loads(shared("data/webhook-vectors.json").read_bytes()):
        vector = msgspec.convert(each, Vector)
        scheme, options = _vector_scheme(vector)
        request, secrets = _vector_request(vector), _vector_secrets(vector)
        compiled = compile_scheme(scheme, secrets, options)
        if compiled is None or len(request.headers_by_name) < len(request.headers):
            continue
        table: dict[bytes, bytes] = {}
        for name, value in request.headers_by_name.items():
            table[name.encode("latin-1")] = value.encode("latin-1", "replace")
        now = (each["now_epoch_if_needed"] or 0) * 1000
        found = compiled(table, request.body, now)
        expected = general(scheme, request, secrets, options, now)
        assert found is None or found == expected, each["id"]
        compiled_count += found is not None

    assert compiled_count >= 20


@pytest.mark.parametrize("late", [300_001, -300_001])
def test_a_request_outside_the_window_is_left_to_the_general_path(late: int) -> None:
    assert both(SENT["stripe"], now=NOW + late) == (None, None)


def test_an_id_in_an_unsigned_header_is_not_taken_for_signed() -> None:
    sent = SENT["github"]

    found, expected = both(sent.but(headers={**sent.headers, "X-GitHub-Delivery": "d-1"}))

    assert found is not None
    assert (found.id, found.id_signed) == ("d-1", False)
    assert found == expected


def test_an_id_with_a_part_in_an_unsigned_header_is_not_taken_for_signed() -> None:
    options = SchemeOptions(id="header:x-id?+$.id", header="x-sig")
    headers = {"X-Sig": mac(BODY).hex(), "X-Id": "d-1"}

    found, expected = both(Sent("generic-hmac", headers, body=BODY, options=options))

    assert found is not None
    assert (found.id, found.id_signed) == ("d-1:evt_1", False)
    assert found == expected


def test_a_second_signature_header_is_left_to_the_general_path() -> None:
    sent = SENT["hookdeck"]

    found, expected = both(sent.but(headers={**sent.headers, "X-Hookdeck-Signature-2": "aa"}))

    assert found is None
    assert expected is not None


def test_a_timestamp_in_the_signature_must_be_there() -> None:
    signature = hmac.new(SECRET.encode(), b"." + BODY, hashlib.sha256).hexdigest()
    sent = Sent("stripe", {"Stripe-Signature": f"v1={signature}"}, signature="Stripe-Signature")

    assert both(sent) == (None, None)


def test_without_a_usable_secret_nothing_is_compiled() -> None:
    blank: Any = ("", " ")

    assert compile_scheme(registry.find_scheme("github"), blank, NO_OPTIONS) is None


@pytest.mark.parametrize(
    "fields",
    [{"encoding": "base99"}, {"key": "rot13"}, {"unit": "fortnight"}, {"header": ""}],
    ids=str,
)
def test_an_added_scheme_that_is_invalid_is_left_to_the_general_path(
    fields: dict[str, str],
) -> None:
    scheme = msgspec.structs.replace(registry.find_scheme("github"), **fields)

    assert compile_scheme(scheme, (SECRET,)) is None


def test_an_added_scheme_with_an_unknown_hash_is_left_to_the_general_path() -> None:
    github = registry.find_scheme("github")
    scheme = msgspec.structs.replace(github, signature_prefixes=(("sha256=", "md99"),))
    compiled = compile_scheme(scheme, (SECRET,))
    headers = {
        name.lower().encode(): value.encode() for name, value in SENT["github"].headers.items()
    }

    assert compiled is not None
    assert compiled(headers, BODY, NOW) is None
