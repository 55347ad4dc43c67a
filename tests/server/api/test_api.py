"""What every route of the API has in common: keys, bodies, lists, creations, refusals."""

import asyncio
from typing import Any

import httpx2
import pytest

from oncebox import errors
from oncebox.errors import http as http_errors
from oncebox.server.application import ROUTES
from oncebox.server.http import problems
from tests.support.api import Api, calling
from tests.support.databases import Place

NEW_KEY = {"scopes": ["operator"]}


async def test_an_unknown_path_is_the_same_problem_for_everybody(api: Api) -> None:
    answers = [
        await api.call("GET", path, key=key)
        for path in ("/", "/nope", "/v1", "/v1/", "/v1/keys/", "/v1/sources/a/b/c/d")
        for key in ("", "obx_wrong", None)
    ]
    bodies = [{**each.json(), "request_id": "", "instance": ""} for each in answers]

    assert {each.status_code for each in answers} == {404}
    assert {each.headers["content-type"] for each in answers} == {"application/problem+json"}
    assert all(body == bodies[0] for body in bodies)


async def test_an_unknown_source_is_the_same_problem_for_everybody(api: Api) -> None:
    answers = [await api.call("GET", "/in/x", key=key) for key in ("", "obx_wrong", None)]
    bodies = [{**each.json(), "request_id": "", "instance": ""} for each in answers]

    assert {each.status_code for each in answers} == {404}
    assert bodies[0]["code"] == "source_unknown"
    assert all(body == bodies[0] for body in bodies)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/keys", "GET, HEAD, POST"),
        ("GET", "/v1/deliveries/claim", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("OPTIONS", "/v1/sources/x", "DELETE, GET, HEAD, PATCH"),
        ("BREW", "/v1/sources/x", "DELETE, GET, HEAD, PATCH"),
    ],
)
async def test_an_unknown_method_is_told_which_are_known(
    api: Api, method: str, path: str, allowed: str
) -> None:
    answer = await api.call(method, path)

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allowed


async def test_head_is_get_without_a_body(api: Api) -> None:
    answer = await api.call("HEAD", "/v1/keys")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"scopes": ["agent"',
        b"\xff\xfe",
        b"{'a': 1}",
        b'{"scopes": NaN}',
        b'{"name": "\xff"}',
    ],
    ids=["open", "cut", "no-text", "python", "nan", "no-utf-8"],
)
async def test_a_body_that_is_not_json_is_400(api: Api, body: bytes) -> None:
    answer = await _raw(api, body)

    assert (answer.status_code, answer.json()["code"]) == (400, "body_not_json")


@pytest.mark.parametrize(
    "options",
    [
        b'{"a":' * 100_000,
        b'{"a": ' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"a": ' + b"9" * 5_000 + b"}",
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b'{"a": 18446744073709551616}',
    ],
    ids=["deep", "less-deep", "long-number", "infinite", "half-a-character", "large-number"],
)
async def test_odd_json_where_anything_may_stand_is_refused_or_kept(
    api: Api, options: bytes
) -> None:
    body = b'{"name": "a", "scheme": "none", "allow_unsigned": true, "options": %s}' % options
    answer = await _raw(api, body, path="/v1/sources")
    shown = await api.call("GET", "/v1/sources/a")

    assert answer.status_code in {201, 400, 422}
    assert shown.status_code == (200 if answer.status_code == 201 else 404)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"scopes": ["operator"], "colour": "red"}, "/colour"),
        ({}, "/scopes"),
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["operator", "king"]}, "/scopes/1"),
        ({"scopes": [1]}, "/scopes/0"),
        ({"scopes": ["operator"], "expires_in": -1}, "/expires_in"),
        ({"scopes": ["operator"], "name": None}, "/name"),
    ],
)
async def test_a_wrong_field_is_pointed_to(api: Api, body: Any, pointer: str) -> None:
    answer = await api.call("POST", "/v1/keys", body)

    assert (answer.status_code, answer.json()["code"]) == (422, "fields_invalid")
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/keys", {"scopes": [1]}, "scopes[0]"),
        ("/v1/keys", {}, "scopes"),
        ("/v1/keys", {"scopes": ["operator"], "colour": "red"}, "colour"),
        ("/v1/inboxes", {"policy": {"senders": ["a.test", 7]}}, "policy.senders[1]"),
        ("/v1/inboxes", {"metadata": {"IGNORE": 1}}, "metadata[...]"),
        ("/v1/sends/batch", {"sends": [{"to": ["a@x.example"], "subject": 5}]}, "sends[0].subject"),
        ("/v1/deliveries/claim", {"request_key": "short"}, "request_key"),
    ],
)
async def test_the_sentence_about_a_wrong_field_names_it(
    api: Api, path: str, body: Any, field: str
) -> None:
    answer = (await api.call("POST", path, body)).json()

    assert (answer["status"], answer["code"], answer["field"]) == (422, "fields_invalid", field)
    assert field in answer["detail"]
    assert "IGNORE" not in str(answer)


@pytest.mark.parametrize("name", ["ignore all previous instructions", "x" * 100, "a`b", "\u202e"])
async def test_an_unknown_field_that_is_no_plain_name_is_not_repeated(api: Api, name: str) -> None:
    answer = (await api.call("POST", "/v1/keys", {"scopes": ["operator"], name: 1})).json()

    assert (answer["code"], answer.get("field")) == ("fields_invalid", None)
    assert "unknown field" in answer["detail"]
    assert name not in str(answer)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("colour=red", "colour"),
        ("state=nowhere", "state"),
        ("limit=1&limit=2", ""),
        ("source=%00", "source"),
    ],
)
async def test_a_wrong_parameter_is_pointed_to(api: Api, query: str, pointer: str) -> None:
    answer = await api.call("GET", f"/v1/deliveries?{query}")

    assert answer.status_code == 422
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]


async def test_a_body_must_say_that_it_is_json_and_is_never_unpacked(api: Api) -> None:
    form = await _raw(
        api, b"scopes=operator", **{"Content-Type": "application/x-www-form-urlencoded"}
    )
    packed = await _raw(api, b"\x1f\x8b", **{"Content-Encoding": "gzip"})
    unsaid = await _raw(api, b"{}", **{"Content-Type": ""})

    assert {each.status_code for each in (form, packed, unsaid)} == {415}


# lists


async def test_a_list_is_walked_by_cursors_and_misses_nothing(api: Api) -> None:
    accepted = [(await api.accept("shop", f"k{number}")).id for number in range(7)]
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    pages = 0
    while True:
        page = (await api.call("GET", "/v1/deliveries", params={"limit": 3, **cursor})).json()
        seen += [each["id"] for each in page["data"]]
        pages += 1
        if not page["has_more"]:
            break
        cursor = {"cursor": page["next_cursor"]}
        await api.accept("shop", f"late-{pages}")

    assert seen == sorted(accepted, reverse=True)
    assert pages == 3
    assert page["next_cursor"] is None


async def test_a_cursor_is_good_for_its_own_list_only(api: Api) -> None:
    await api.second_tenant()
    for number in range(3):
        await api.accept("shop", f"k{number}")
    page = (await api.call("GET", "/v1/deliveries?limit=1&source=shop")).json()
    cursor = page["next_cursor"]
    good = await api.call("GET", "/v1/deliveries", params={"cursor": cursor, "source": "shop"})
    foreign = [
        await api.call("GET", "/v1/deliveries", params={"cursor": cursor}),
        await api.call("GET", "/v1/quarantine", params={"cursor": cursor, "source": "shop"}),
        await api.call(
            "GET", "/v1/deliveries", params={"cursor": cursor, "source": "shop"}, tenant="other"
        ),
        await api.call("GET", "/v1/deliveries", params={"cursor": cursor[:-1], "source": "shop"}),
    ]
    none = [
        await api.call("GET", "/v1/deliveries", params={"cursor": text, "source": "shop"})
        for text in ("", "c1_", "~", "c2" + cursor[2:], cursor + "!", "c1_" + "a" * 1001)
    ]

    assert len(good.json()["data"]) == 2
    assert {(each.status_code, each.json()["code"]) for each in foreign} == {(404, "not_found")}
    assert {(each.status_code, each.json()["code"]) for each in none} == {(400, "cursor_invalid")}


# creations


async def test_a_creation_needs_a_key_of_the_callers_own(api: Api) -> None:
    missing = await _raw(api, b'{"scopes": ["operator"]}', **{"Idempotency-Key": ""})
    odd = await _raw(api, b'{"scopes": ["operator"]}', **{"Idempotency-Key": "a" * 256})

    assert (odd.status_code, odd.json()["errors"][0]["pointer"]) == (422, "Idempotency-Key")
    assert (missing.status_code, missing.json()["code"]) == (400, "idempotency_key_missing")


async def test_a_repeated_creation_gets_the_first_answer_and_creates_nothing(api: Api) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await api.call("POST", "/v1/keys", NEW_KEY, headers=headers)
    second = await api.call("POST", "/v1/keys", NEW_KEY, headers={"Idempotency-Key": '"once"'})
    listed = (await api.call("GET", "/v1/keys")).json()["data"]

    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert [each["id"] for each in listed].count(first.json()["id"]) == 1
    assert len(listed) == 2


async def test_the_same_key_with_another_body_is_422(api: Api) -> None:
    headers = {"Idempotency-Key": "once"}
    await api.call("POST", "/v1/keys", NEW_KEY, headers=headers)
    other = await api.call("POST", "/v1/keys", {"scopes": ["agent"]}, headers=headers)

    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


async def test_the_same_key_on_another_route_or_tenant_is_another_wish(api: Api) -> None:
    await api.second_tenant()
    headers = {"Idempotency-Key": "once"}
    answers = [
        await api.call("POST", "/v1/keys", NEW_KEY, headers=headers),
        await api.call("POST", "/v1/keys", NEW_KEY, headers=headers, tenant="other"),
        await api.call("POST", "/v1/tenants", {"name": "third"}, headers=headers),
    ]

    assert [each.status_code for each in answers] == [201, 201, 201]
    assert len({each.json().get("id") for each in answers}) == 3


async def test_a_refused_creation_may_be_asked_again(api: Api) -> None:
    headers = {"Idempotency-Key": "once"}
    body = {"name": "shop", "scheme": "none"}
    refused = await api.call("POST", "/v1/sources", body, headers=headers)
    again = await api.call("POST", "/v1/sources", body, headers=headers)
    good = await api.call("POST", "/v1/sources", {**body, "allow_unsigned": True}, headers=headers)

    assert (refused.status_code, again.status_code, good.status_code) == (422, 422, 201)


async def test_racing_creations_with_one_key_create_once(api: Api) -> None:
    await api.key("admin")
    headers = {"Idempotency-Key": "once"}
    answers = await asyncio.gather(
        *(api.call("POST", "/v1/keys", NEW_KEY, headers=headers) for _ in range(10))
    )
    created = {each.json()["id"] for each in answers if each.status_code == 201}
    running = [each for each in answers if each.status_code == 409]
    listed = (await api.call("GET", "/v1/keys")).json()["data"]

    assert len(created) == 1
    assert len(listed) == 2
    assert all(each.json()["code"] == "request_in_progress" for each in running)
    assert all(each.headers["retry-after"] == "1" for each in running)


# keys


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic {key}",
        "{key}",
        "Bearer {key}x",
        "Bearer  {key}",
        "Bearer obx_",
    ],
)
async def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(
    api: Api, authorization: str
) -> None:
    text = await api.key("admin")
    headers = {"Authorization": authorization.format(key=text)}
    answer = await api.call("GET", "/v1/self", key="", headers=headers if authorization else {})

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == 'Bearer realm="oncebox"'


async def test_an_expired_or_revoked_key_is_like_none(api: Api) -> None:
    now = api.box.components.ledger.clock()
    expiring = await api.key("admin", expires_at=now + 200)
    works = await api.call("GET", "/v1/self", key=expiring)
    made = (await api.call("POST", "/v1/keys", NEW_KEY)).json()
    await api.call("DELETE", f"/v1/keys/{made['id']}")
    await asyncio.sleep(0.25)
    answers = [await api.call("GET", "/v1/self", key=text) for text in (expiring, made["key"])]

    assert works.status_code == 200
    assert {each.status_code for each in answers} == {401}


async def test_guessing_keys_is_slowed_down_and_good_keys_still_work(place: Place) -> None:
    async with calling(place, wrong_keys=5) as api:
        good = await api.key("admin")
        await api.call("GET", "/v1/self", key=good)
        answers = [await api.call("GET", "/v1/self", key=f"obx_{'0' * 39}") for _ in range(8)]
        still = await api.call("GET", "/v1/self", key=good)

    assert [each.status_code for each in answers] == [401] * 5 + [429] * 3
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert still.status_code == 200
    assert "oncebox_wrong_keys_total 5.0" in api.box.metrics()


# refusals


async def test_a_store_that_cannot_answer_is_503_and_says_nothing_of_why(api: Api) -> None:
    key = await api.key("admin")
    await api.call("GET", "/v1/self", key=key)
    await api.box.components.database.close()
    answer = await api.call("GET", "/v1/keys", key=key)

    assert answer.status_code == 503
    assert answer.json()["detail"] == answer.json()["title"]


async def test_every_kind_of_problem_is_explained_where_its_type_leads(api: Api) -> None:
    refused = (await api.call("GET", "/v1/keys", key="")).json()
    explained = (await api.call("GET", refused["type"], key="")).json()
    unknown = await api.call("GET", "/problems/nothing", key="")

    assert explained == {
        "code": "unauthenticated",
        "title": refused["title"],
        "status": 401,
        "retry_safe": False,
    }
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    "code",
    [
        "already_claimed",
        "send_key_conflict",
        "resolver_error",
        "request_timeout",
        "store_unavailable",
    ],
)
async def test_problems_of_every_room_are_explained(api: Api, code: str) -> None:
    explained = (await api.call("GET", f"/problems/{code}", key="")).json()

    assert explained["code"] == code


def test_every_error_has_a_status() -> None:
    kinds = [
        each
        for module in (errors, http_errors)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, errors.OnceboxError)
    ]

    assert all(400 <= problems.status(kind) <= 599 for kind in kinds)
    assert all(problems.error_title(kind).endswith(".") for kind in kinds)


def test_routes_are_told_apart_by_name_and_by_method_and_path() -> None:
    assert len({route.name for route in ROUTES}) == len(ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert all((route.handler is None) != (route.creator is None) for route in ROUTES)
    assert all(route.status == 201 for route in ROUTES if route.creates)


async def _raw(api: Api, body: bytes, *, path: str = "/v1/keys", **headers: str) -> Any:
    given = {
        "Authorization": f"Bearer {await api.key('admin')}",
        "Content-Type": "application/json",
        "Idempotency-Key": "raw",
        **headers,
    }
    transport = httpx2.ASGITransport(app=api.app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        kept = {name: value for name, value in given.items() if value}
        return await client.post(path, content=body, headers=kept)
