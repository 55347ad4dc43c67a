"""Endpoints: what may be written, and what an answer means."""

import base64

import pytest

from oncebox.errors import ConfigInvalid
from oncebox.model.endpoints import (
    BREAKER_FAILURES,
    EndpointFields,
    answer_kind,
    check_fields,
    check_secrets,
    check_url,
    rest_after,
)

SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(200, "accepted"), (204, "accepted"), (299, "accepted"), (199, "refused"), (300, "refused"),
     (307, "refused"), (404, "refused"), (409, "refused"), (410, "gone"), (429, "refused"),
     (500, "refused")],
)  # fmt: skip
def test_only_a_2xx_is_an_acceptance(status: int, kind: str) -> None:
    assert answer_kind(status) == kind


def test_a_breaker_rests_longer_and_longer_up_to_ten_minutes() -> None:
    rests = [rest_after(failures, lambda: 1.0) for failures in range(BREAKER_FAILURES + 20)]

    assert rests[: BREAKER_FAILURES + 3] == [0] * BREAKER_FAILURES + [10_000, 20_000, 40_000]
    assert max(rests) == 600_000
    assert rest_after(BREAKER_FAILURES, lambda: 0.0) == 5_000


@pytest.mark.parametrize(
    "url",
    ["", "a", "https://", "https:///x", "https://a:0/", "https://a:99999/", "https://u@a/",
     "https://a/#x", "https://a b/", "https://ä.example/", "https://a/\n", "file:///x",
     "https://" + "a" * 2_000],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigInvalid, match="HOST/PATH"):
        check_url(url)


@pytest.mark.parametrize(
    "secrets", [[], ["x"], ["whsec_"], ["whsec_c2hvcnQ="], ["whsec_%%%"], [SECRET] * 5]
)
def test_what_cannot_sign_is_no_secret(secrets: list[str]) -> None:
    with pytest.raises(ConfigInvalid):
        check_secrets(secrets)
    assert check_secrets([SECRET]) == (SECRET,)


def test_event_types_are_known_or_families() -> None:
    fields = EndpointFields(name="a", url="https://a.example", types=("send.*", "inbox.missed"))

    assert check_fields(fields).types == ("inbox.missed", "send.*")
    for wrong in ("send.x", "x.*", "send"):
        with pytest.raises(ConfigInvalid, match="no such event type"):
            check_fields(EndpointFields(name="a", url="https://a.example", types=(wrong,)))
