"""The tables: complete, consistent, and open to others' schemes without trusting them."""

import re
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from msgspec.structs import replace

from oncebox.errors import ConfigInvalid, SchemeInvalid, UnknownScheme
from oncebox.webhooks import paths, registry, verification
from oncebox.webhooks.event_parsing import parse_events
from oncebox.webhooks.formats import DIGEST_ENCODERS, TIMESTAMP_PARSERS
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.paths import parse_json_path
from oncebox.webhooks.scheme import NO_OPTIONS, Scheme, SchemeOptions, VerificationContext
from oncebox.webhooks.signing import KEY_DERIVATIONS
from oncebox.webhooks.verification import (
    apply_options,
    check_scheme,
    parse_options,
    source_options,
    verify_fresh,
)
from tests.project.tree import ROOT
from tests.webhooks.senders import BODY, NOW, SECONDS, SECRET, mac

ALL = list(registry.BUILT_IN_SCHEMES.values())
each = pytest.mark.parametrize("scheme", ALL, ids=lambda scheme: scheme.name)

#: signed, though the signature does not cover the whole body
PARTLY = {"mailgun", "mailgun-inbound", "aws-sns", "ses-inbound"}

MINE = Scheme(name="mine", title="Mine", header="X-Mine")
NOT_MINE = replace(MINE, name="other")
NO_SCHEME = "a string"


def test_every_provider_that_was_asked_for_is_there() -> None:
    asked = """stripe github gitlab gitlab-signing bitbucket gitea gogs slack standard-webhooks svix
    resend clerk openai agentmail polar shopify twilio sendgrid sendgrid-inbound mailgun
    mailgun-inbound postmark aws-sns linear paddle zendesk discord zoom meta hubspot-v1 hubspot-v2
    hubspot square pagerduty typeform intercom calcom plaid nylas vercel webflow twitch woocommerce
    gocardless mandrill mailersend unisender-go elevenlabs x hookdeck outpost hook0 generic-hmac
    basic token none"""

    assert set(asked.split()) <= set(registry.BUILT_IN_SCHEMES)


@each
def test_a_table_uses_known_words_only(scheme: Scheme) -> None:
    assert scheme.encoding in {*DIGEST_ENCODERS, "JWT"}
    assert scheme.key in KEY_DERIVATIONS
    assert scheme.unit in TIMESTAMP_PARSERS
    assert scheme.late in {"hold", "run"}
    assert set(scheme.accepted_options) <= set(SchemeOptions.__struct_fields__)
    for place in (*scheme.id, *scheme.type):
        paths.parse_field_path(place.path)
    for path in scheme.volatile:
        parse_json_path(path)
    if scheme.batch:
        paths.parse_batch_path(scheme.batch)
    if scheme.verifier is None:
        verification.parse_template(scheme.content)
        assert "body" in scheme.covers


@each
def test_a_place_is_signed_exactly_if_the_signature_covers_it(scheme: Scheme) -> None:
    if scheme.name in PARTLY:
        return

    for place in (*scheme.id, *scheme.type):
        assert place.signed == scheme.covers_path(place.path), place


def test_the_ids_that_are_not_signed_are_known() -> None:
    """Each of them is backed by the fingerprint of the body."""
    unsigned = {scheme.name for scheme in ALL if scheme.id and not scheme.id_signed}

    assert unsigned == {
        "bitbucket", "bitbucket-server", "gitea", "github", "github-legacy", "gitlab", "gogs",
        "hook0", "hookdeck", "linear", "outpost", "postmark", "postmark-inbound",
        "shopify", "shopify-events", "twilio", "woocommerce", "zendesk",
    }  # fmt: skip


def test_a_name_nobody_knows_is_an_error() -> None:
    with pytest.raises(UnknownScheme, match="'no-such'"):
        registry.find_scheme("no-such")


@pytest.fixture
def offers(monkeypatch: pytest.MonkeyPatch) -> None:
    here = __name__

    def offered(*, group: str) -> list[EntryPoint]:
        assert group == "oncebox.schemes"
        values = {
            "mine": f"{here}:MINE",
            "misnamed": f"{here}:NOT_MINE",
            "wrong": f"{here}:NO_SCHEME",
            "missing": "no_such_package.at_all:SCHEME",
            "stripe": f"{here}:MINE",
        }
        return [EntryPoint(name, value, group) for name, value in values.items()]

    monkeypatch.setattr(registry, "entry_points", offered)


@pytest.mark.usefixtures("offers")
def test_a_package_may_add_a_scheme() -> None:
    assert registry.find_scheme("mine").header == "X-Mine"
    assert registry.scheme_names()[-4:] == ["mine", "misnamed", "missing", "wrong"]


@pytest.mark.usefixtures("offers")
def test_a_package_cannot_replace_what_comes_along() -> None:
    assert registry.find_scheme("stripe").title == "Stripe"


@pytest.mark.usefixtures("offers")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "cannot be loaded: ModuleNotFoundError"),
        ("wrong", "is a str, not a Scheme"),
        ("misnamed", "calls itself 'other'"),
    ],
)
def test_a_bad_scheme_fails_by_name_and_leaves_the_others_alone(name: str, message: str) -> None:
    with pytest.raises(SchemeInvalid, match=message) as caught:
        registry.find_scheme(name)

    assert repr(name) in str(caught.value)
    assert registry.find_scheme("mine").name == "mine"
    assert registry.find_scheme("github").name == "github"


# ------------------------------------------------------------------------------------- options


def test_options_are_read_as_a_source_keeps_them() -> None:
    options = parse_options({"window": 60, "topics": ["a"], "id": "$.id"})

    assert (options.window, options.topics, options.id) == (60, ("a",), "$.id")
    assert parse_options({}) is NO_OPTIONS


def test_the_settings_of_a_source_become_options_where_the_scheme_takes_them() -> None:
    settings: dict[str, Any] = {"public_url": "https://x.test/in/a", "allow_unsigned": True}

    assert source_options(
        registry.find_scheme("twilio"), {"window": 1}, **settings
    ) == SchemeOptions(window=1, public_url="https://x.test/in/a")
    assert source_options(registry.find_scheme("none"), {}, **settings) == SchemeOptions(
        allow_unsigned=True
    )
    assert source_options(registry.find_scheme("github"), {}, **settings) is NO_OPTIONS


def test_an_attempt_shows_no_secret() -> None:
    attempt = VerificationContext(scheme=MINE, request=WebhookRequest(), secrets=["c4nary"], now=0)

    assert repr(attempt) == "VerificationContext(mine)"


def test_the_example_in_the_pages_is_a_scheme_that_works() -> None:
    page = (ROOT / "docs" / "sources.md").read_text()
    (example,) = re.findall(r"^```python\n(from .*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102 - it is our own page
    scheme: Scheme = names["SCHEME"]
    signature = mac(f"{SECONDS}.".encode() + BODY).hex()
    headers = (("X-Acme-Signature", signature), ("X-Acme-Time", SECONDS))
    request = WebhookRequest(headers=headers, body=BODY)

    assert verify_fresh(scheme, request, [SECRET], now=NOW).secret_index == 0
    assert parse_events(scheme, request).events[0].id == "evt_1"


@pytest.mark.parametrize(
    "values", [{"no_such": 1}, {"window": "soon"}, {"window": -1}, {"topics": "a"}]
)
def test_options_nobody_knows_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ConfigInvalid, match="options of the scheme"):
        parse_options(values)


@pytest.mark.parametrize("scheme", [each for each in ALL if not each.keyless], ids=lambda s: s.name)
@pytest.mark.parametrize("secrets", [[], [""], ["  "]], ids=repr)
def test_without_a_secret_a_source_does_not_start(scheme: Scheme, secrets: list[str]) -> None:
    with pytest.raises(ConfigInvalid, match="needs a secret"):
        check_scheme(scheme, secrets)


def test_a_source_that_could_let_in_anything_does_not_start() -> None:
    with pytest.raises(ConfigInvalid, match="needs its topics"):
        check_scheme(registry.find_scheme("aws-sns"), [])
    with pytest.raises(ConfigInvalid, match="allow_unsigned"):
        check_scheme(registry.find_scheme("none"), [])
    check_scheme(registry.find_scheme("none"), [], SchemeOptions(allow_unsigned=True))
    check_scheme(registry.find_scheme("aws-sns"), [], SchemeOptions(topics=("a",)))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("github", SchemeOptions(header="X-Mine"), "does not take header"),
        ("github", SchemeOptions(allow_unsigned=True), "does not take allow_unsigned"),
        ("stripe", SchemeOptions(public_url="https://x.test"), "does not take public_url"),
        ("generic-hmac", SchemeOptions(algorithm="md5"), "there is no algorithm 'md5'"),
        ("generic-hmac", SchemeOptions(encoding="rot13"), "there is no encoding 'rot13'"),
        ("generic-hmac", SchemeOptions(unit="h"), "there is no unit 'h'"),
        ("generic-hmac", SchemeOptions(content="{bodi}"), "is not a signed content"),
        ("generic-hmac", SchemeOptions(id="id"), "is not a place"),
        ("generic-hmac", SchemeOptions(type="header:x@.y"), "is not a place"),
        ("generic-hmac", SchemeOptions(volatile=("x",)), "is not a path"),
        ("generic-hmac", SchemeOptions(batch="header:x"), "is not a place"),
    ],
)
def test_options_that_cannot_work_are_refused_at_the_start(
    name: str, options: SchemeOptions, message: str
) -> None:
    with pytest.raises(ConfigInvalid, match=message):
        check_scheme(registry.find_scheme(name), ["s"], options)


def test_no_options_leave_a_scheme_as_it_is() -> None:
    for scheme in ALL:
        changed = apply_options(scheme, NO_OPTIONS)
        assert {name: getattr(changed, name) for name in Scheme.__struct_fields__} == {
            name: getattr(scheme, name) for name in Scheme.__struct_fields__
        }
