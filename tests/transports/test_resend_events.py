"""What Resend's webhooks tell: nothing is believed that they do not say."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.model.sends.transports import ProviderStatus
from oncebox.testing.provider_protocol import ProviderMail
from oncebox.testing.resend import Resend
from oncebox.transports.resend import ResendEvent, read_resend_event

ID = "49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"
DATA = {
    "created_at": "2026-11-22T23:41:11.894719+00:00",
    "email_id": ID,
    "from": "Acme <onboarding@resend.dev>",
    "to": ["Bob <Bob@Example.NET>"],
    "subject": "Sending this example",
    "tags": {"category": "confirm_email", "oncebox": "snd_1"},
}


def said(kind: Any = "email.sent", **changed: Any) -> bytes:
    data = {name: value for name, value in {**DATA, **changed}.items() if value is not None}
    return json.dumps(
        {"type": kind, "created_at": "2026-11-22T23:41:12.126Z", "data": data}
    ).encode()


def told(body: bytes) -> ResendEvent:
    report = read_resend_event(body)
    assert report is not None
    return report


def test_a_webhook_is_read_as_it_is_documented() -> None:
    assert told(said("email.delivered")) == ResendEvent(
        provider_id=ID,
        send_id="snd_1",
        kind=ProviderStatus.DELIVERED,
        at=1_795_390_872_126,
        addresses=("bob@example.net",),
    )
    assert "bob" not in repr(told(said()))


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("email.sent", ProviderStatus.ACCEPTED),
        ("email.delivered", ProviderStatus.DELIVERED),
        ("email.delivery_delayed", ProviderStatus.DELAYED),
        ("email.complained", ProviderStatus.COMPLAINED),
        ("email.failed", ProviderStatus.FAILED),
        ("email.suppressed", ProviderStatus.SUPPRESSED),
        ("email.opened", ProviderStatus.OPENED),
        ("email.clicked", ProviderStatus.CLICKED),
    ],
)
def test_every_type_has_its_word(kind: str, what: ProviderStatus) -> None:
    assert told(said(kind)).kind is what


@pytest.mark.parametrize(
    ("bounce", "what"),
    [
        ({"type": "Permanent", "subType": "General"}, ProviderStatus.BOUNCED),
        ({"type": "permanent"}, ProviderStatus.BOUNCED),
        ({"type": "Transient", "subType": "MailboxFull"}, ProviderStatus.SOFT_BOUNCED),
        ({"type": "Undetermined"}, ProviderStatus.SOFT_BOUNCED),
        ({}, ProviderStatus.SOFT_BOUNCED),
        ("Permanent", ProviderStatus.SOFT_BOUNCED),
        (None, ProviderStatus.SOFT_BOUNCED),
    ],
)
def test_only_a_bounce_for_good_is_one(bounce: Any, what: ProviderStatus) -> None:
    assert told(said("email.bounced", bounce=bounce)).kind is what


@pytest.mark.parametrize("kind", ["email.received", "email.scheduled", "contact.created", 7, None])
def test_other_types_say_nothing(kind: Any) -> None:
    assert read_resend_event(said(kind)) is None


@pytest.mark.parametrize("id_", [None, "", 7, "a b", "a\nb", "x" * 257, ["x"]])
def test_without_an_id_nothing_is_said(id_: Any) -> None:
    assert read_resend_event(said(email_id=id_)) is None


@pytest.mark.parametrize(
    ("tags", "send_id"),
    [
        ([{"name": "oncebox", "value": "snd_2"}], "snd_2"),
        ([{"name": "other", "value": "snd_2"}, "odd", {"value": "x"}], ""),
        ({"oncebox": "a b"}, ""),
        ({"oncebox": 7}, ""),
        ({"oncebox": "x" * 65}, ""),
        ("oncebox", ""),
        (None, ""),
    ],
)
def test_our_tag_is_found_in_both_forms(tags: Any, send_id: str) -> None:
    assert told(said(tags=tags)).send_id == send_id


@pytest.mark.parametrize(
    ("to", "addresses"),
    [
        ("bob@example.net", ("bob@example.net",)),
        (["bob@example.net", "BOB@example.net"], ("bob@example.net",)),
        (["odd", 7, None, "a@b@c", "kim@example.net"], ("kim@example.net",)),
        (None, ()),
        ({}, ()),
    ],
)
def test_only_addresses_are_addresses(to: Any, addresses: tuple[str, ...]) -> None:
    assert told(said(to=to)).addresses == addresses


def test_of_several_recipients_it_does_not_say_which_one_bounced() -> None:
    bounced = said(
        "email.bounced", to=["bob@example.net", "kim@example.net"], bounce={"type": "Permanent"}
    )

    assert (told(bounced).kind, told(bounced).addresses) == (ProviderStatus.BOUNCED, ())


@pytest.mark.parametrize("moment", [None, 7, "yesterday", "", "0001-01-01", "9999-99-99"])
def test_a_moment_that_cannot_be_read_is_none(moment: Any) -> None:
    body = json.dumps({"type": "email.sent", "created_at": moment, "data": DATA}).encode()

    assert told(body).at is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*DATA, "type", "data", "bounce", "name", "value"]), inner
        )
    ),
    max_leaves=12,
)


@given(body=st.binary(max_size=60) | _JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_is_sent_is_read_or_left(body: bytes) -> None:
    report = read_resend_event(body)

    assert report is None or report.provider_id


@given(
    kind=st.sampled_from(["email.sent", "email.bounced", "email.complained", "x"]),
    data=st.fixed_dictionaries({}, optional=dict.fromkeys((*DATA, "bounce"), _JSON)),
)
def test_no_shape_of_data_breaks_the_reader_or_lists_who_did_not_bounce(
    kind: str, data: dict[str, Any]
) -> None:
    report = read_resend_event(json.dumps({"type": kind, "data": data}).encode())

    if report is not None:
        assert report.provider_id == data["email_id"]
        assert report.kind is not ProviderStatus.BOUNCED or "ermanent" in json.dumps(data["bounce"])


def test_deep_nesting_is_left() -> None:
    assert read_resend_event(b'{"type":"email.sent","data":' + b"[" * 100_000) is None


def test_what_the_scripted_provider_tells_is_read() -> None:
    taken = ProviderMail(
        id=ID, key="k", payload={"from": "a@example.com"}, body=b"", recipients=("b@example.net",),
        message_id="", tags={"oncebox": "snd_1"},
    )  # fmt: skip
    hook = Resend().webhook(
        "email.bounced", taken, "whsec_c2VjcmV0c2VjcmV0c2VjcmV0", at=1_795_390_872_126,
        bounce={"type": "Permanent"},
    )  # fmt: skip

    assert told(hook.body) == ResendEvent(
        provider_id=ID, send_id="snd_1", kind=ProviderStatus.BOUNCED, at=1_795_390_872_126,
        addresses=("b@example.net",),
    )  # fmt: skip
