"""Artifacts by the API: listed without what they say, granted once, released by a person."""

from typing import Any

import pytest

from oncebox.ledger.artifacts.claims import ClaimResolver, Grants
from tests.support.api import OTHER, Api
from tests.support.finds import Letter, bring, code, judge_link, link

AGENT = ("agent",)
OPERATOR = ("operator",)
#: another key of the same kind: the scopes stand in another order
SECOND = ("agent", "read:text")


async def inbox(api: Api, **rest: Any) -> str:
    """Make an inbox of the agent's."""
    answer = await api.call("POST", "/v1/inboxes", {"attempt_id": "signup", **rest}, scopes=AGENT)
    return str(answer.json()["id"])


async def brought(api: Api, *letters: Letter, **rest: Any) -> tuple[str, list[str]]:
    """Make an inbox and let mail come to it."""
    id_ = await inbox(api, **rest)
    return id_, await bring(api.box, id_, *letters)


async def claim(api: Api, id_: str, scopes: tuple[str, ...] = AGENT, **body: Any) -> Any:
    """Claim an artifact."""
    return await api.call("POST", f"/v1/artifacts/{id_}/claim", body, scopes=scopes)


async def test_an_agent_sees_what_there_is_but_not_what_it_says(api: Api) -> None:
    inbox_id, (id_,) = await brought(api, code("481920", subject="Sign in, dear canary"))
    page = await api.call("GET", f"/v1/inboxes/{inbox_id}/artifacts", scopes=AGENT)
    one = await api.call("GET", f"/v1/artifacts/{id_}", scopes=AGENT)
    shown = one.json()

    assert page.json() == {"data": [shown], "next_cursor": None, "has_more": False}
    assert shown.pop("received_at") > 0
    assert shown.pop("message_id").startswith("msg_")
    assert shown == {
        "id": id_,
        "inbox_id": inbox_id,
        "sequence": 1,
        "kind": "code",
        "state": "available",
        "confidence": 0.987,
        "tied": False,
        "matched": True,
        "sender": {"domain": "shop.example", "verdict": "pass"},
        "purposes": ["login"],
        "duplicates": 0,
        "warnings": ["any_sender"],
        "superseded_by": None,
        "claimed": None,
        "purged": False,
        "same_as": None,
    }
    assert not {"481920", "canary", "no-reply"} & set(page.text.replace('"', " ").split())


async def test_a_claim_gets_the_value_and_gets_it_again(api: Api) -> None:
    _, (id_,) = await brought(api, code("481920"))
    worker: dict[str, Any] = {"request_key": "worker-1"}
    first, again = await claim(api, id_, **worker), await claim(api, id_, **worker)
    by_attempt = await claim(api, id_, claim_key="signup", **worker)
    shown = (await api.call("GET", f"/v1/artifacts/{id_}", scopes=AGENT)).json()

    assert (first.status_code, first.json()["value"], first.json()["link"]) == (
        200,
        "481920",
        None,
    )
    assert [each.json()["repeated"] for each in (first, again, by_attempt)] == [False, True, True]
    assert (shown["state"], shown["claimed"]["mine"]) == ("claimed", True)
    assert "value" not in shown


async def test_another_worker_of_the_claim_hears_how_long_it_is_held(api: Api) -> None:
    inbox_id, (id_,) = await brought(api, code("481920"))
    first = await claim(api, id_)
    rival = await claim(api, id_)
    used = [await api.call("POST", f"/v1/artifacts/{id_}/used", {}, scopes=AGENT) for _ in "12"]
    late = await claim(api, id_)
    stats = (await api.call("GET", f"/v1/inboxes/{inbox_id}/stats", scopes=AGENT)).json()

    assert first.json()["claimed"]["lease_until"] > first.json()["claimed"]["at"]
    assert (rival.status_code, rival.json()["code"]) == (409, "artifact_in_flight")
    assert 0 < int(rival.headers["retry-after"]) <= 30
    assert "do not request another one" in rival.json()["detail"]
    assert "481920" not in rival.text
    assert [each.status_code for each in used] == [200, 200]
    assert used[0].json() == used[1].json()
    assert used[0].json()["claimed"]["used_at"] is not None
    assert (late.status_code, late.json()["code"]) == (409, "artifact_used")
    assert stats["lease_conflicts"] == 1


async def test_another_claim_is_told_that_it_is_claimed(api: Api) -> None:
    _, (id_,) = await brought(api, code("481920"))
    await claim(api, id_)
    other_claim = await claim(api, id_, claim_key="another")
    operator = await claim(api, id_, OPERATOR)
    seen = (await api.call("GET", f"/v1/artifacts/{id_}", scopes=OPERATOR)).json()

    for answer in (other_claim, operator):
        assert (answer.status_code, answer.json()["code"]) == (409, "already_claimed")
        assert answer.json()["retry_safe"] is False
        assert "481920" not in answer.text
    assert seen["claimed"]["mine"] is False


async def test_a_second_agent_sees_nothing_of_it(api: Api) -> None:
    inbox_id, (id_,) = await brought(api, code("481920"))
    answers = [
        await api.call("GET", f"/v1/inboxes/{inbox_id}/artifacts", scopes=SECOND),
        await api.call("GET", f"/v1/artifacts/{id_}", scopes=SECOND),
        await claim(api, id_, SECOND, claim_key="signup"),
    ]

    assert [each.status_code for each in answers] == [404] * 3


async def test_without_a_key_nothing_is_claimed(api: Api) -> None:
    _, (id_,) = await brought(api, code("481920"))
    nobody = await api.call("POST", f"/v1/artifacts/{id_}/claim", {}, key="")
    empty = await claim(api, id_, claim_key="")

    assert (nobody.status_code, empty.status_code) == (401, 422)
    assert (await claim(api, id_)).json()["repeated"] is False


async def test_what_was_superseded_names_what_took_its_place(api: Api) -> None:
    inbox_id, (old,) = await brought(api, code("111111", signed_at=1_000))
    (new,) = await bring(api.box, inbox_id, code("222222", signed_at=9_000))
    answer = await claim(api, old)

    assert (answer.status_code, answer.json()["code"]) == (409, "artifact_superseded")
    assert new in answer.json()["detail"]


async def test_what_does_not_match_is_refused(api: Api) -> None:
    _, (id_,) = await brought(api, code("111111", mismatch="sender_not_allowed"))

    assert (await claim(api, id_)).json()["code"] == "artifact_unmatched"


async def test_an_operator_releases_and_says_why(api: Api) -> None:
    _, (id_,) = await brought(api, code("481920"))
    await claim(api, id_)
    path = f"/v1/artifacts/{id_}/release"
    agent = await api.call("POST", path, {"why": "mine"}, scopes=AGENT)
    unsaid = await api.call("POST", path, {}, scopes=OPERATOR)
    released = await api.call("POST", path, {"why": "the agent died"}, scopes=OPERATOR)
    twice = await api.call("POST", path, {"why": "the agent died"}, scopes=OPERATOR)

    assert (agent.status_code, unsaid.status_code) == (403, 422)
    assert (released.json()["state"], released.json()["claimed"]) == ("available", None)
    assert (twice.status_code, twice.json()["code"]) == (409, "state_conflict")
    assert (await claim(api, id_, OPERATOR)).json()["value"] == "481920"


async def test_lists_go_on_where_the_page_before_ended(api: Api) -> None:
    letters = [code(f"{n:06}", sender=f"s{n}@shop.example") for n in range(5)]
    inbox_id, made = await brought(api, *letters)
    path = f"/v1/inboxes/{inbox_id}/artifacts"
    seen, cursor = [], None
    while True:
        params = {"limit": 2, "kind": "code"} | ({"cursor": cursor} if cursor else {})
        page = (await api.call("GET", path, scopes=AGENT, params=params)).json()
        seen += [each["id"] for each in page["data"]]
        if not page["has_more"]:
            break
        cursor = page["next_cursor"]
    links = await api.call("GET", path, scopes=AGENT, params={"kind": "link"})

    assert seen == sorted(made, reverse=True)
    assert links.json()["data"] == []


async def test_another_tenant_finds_nothing(api: Api) -> None:
    await api.second_tenant()
    inbox_id, (id_,) = await brought(api, code("481920"))
    for method, path in (
        ("GET", f"/v1/inboxes/{inbox_id}/artifacts"),
        ("GET", f"/v1/artifacts/{id_}"),
        ("POST", f"/v1/artifacts/{id_}/claim"),
    ):
        answer = await api.call(method, path, {} if method == "POST" else None, tenant=OTHER)
        assert answer.status_code == 404


@pytest.fixture
def linked(api: Api) -> Api:
    """An API whose links are judged by a stand-in."""
    rooms = api.box.components
    grants = Grants(
        rooms.database, ClaimResolver(rooms.artifact_cipher, judge_link), rooms.telemetry
    )
    object.__setattr__(rooms, "grants", grants)
    return api


async def test_a_link_is_granted_in_parts_or_refused_by_code(linked: Api) -> None:
    url = "https://app.shop.example/verify?token=s3cret"
    policy = {"link_hosts": ["app.shop.example"]}
    _, (good,) = await brought(linked, link(url), policy=policy)
    _, (bad,) = await brought(linked, link(f"{url}2"), label="2")
    granted, refused = await claim(linked, good), await claim(linked, bad)

    assert granted.json()["value"] == url
    assert granted.json()["link"] == {
        "host": "app.shop.example",
        "token": "s3cret",
        "parameters": [["token", "s3cret"]],
    }
    assert (refused.status_code, refused.json()["code"]) == (409, "link_refused")
    assert "host_not_allowed (host: sender)" in refused.json()["detail"]
    assert "s3cret" not in refused.text
    assert "app.shop" not in refused.text
    shown = (await linked.call("GET", f"/v1/artifacts/{bad}", scopes=AGENT)).json()
    assert shown["state"] == "available"


async def test_a_local_origin_is_for_operators(api: Api) -> None:
    """And the real policy judges: a link of that very origin is granted, its neighbour is not."""
    policy = {"link_origins": ["http://localhost:3000"]}
    refused = await api.call("POST", "/v1/inboxes", {"policy": policy}, scopes=AGENT)
    made = await api.call("POST", "/v1/inboxes", {"policy": policy}, scopes=OPERATOR)
    links = [
        link(f"http://localhost:{port}/verify?token=s3cret", sender=f"s{port}@shop.example")
        for port in (3000, 3001)
    ]
    good, bad = await bring(api.box, made.json()["id"], *links)
    granted, denied = await claim(api, good, OPERATOR), await claim(api, bad, OPERATOR)

    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert granted.json()["value"] == "http://localhost:3000/verify?token=s3cret"
    assert denied.json()["code"] == "link_refused"
