"""Inboxes and domains by the API."""

import re
from typing import Any, get_args

import msgspec
import pytest

from oncebox import wiring
from oncebox.ledger.inboxes.domain_proofs import DomainProofs
from oncebox.ledger.inboxes.recipient_directory import RecipientStatus
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.purpose import Purpose
from oncebox.schemas.inboxes import Policy
from oncebox.settings import MailSettings
from tests.support.api import OTHER, Api, calling
from tests.support.databases import Place
from tests.support.nameserver import NameServer

AGENT = ("agent",)


async def make(api: Api, status: int = 201, **rest: Any) -> Any:
    scopes = rest.pop("scopes", AGENT)
    tenant = rest.pop("tenant", "")
    key = rest.pop("key", None)
    answer = await api.call("POST", "/v1/inboxes", rest, scopes=scopes, tenant=tenant, key=key)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_an_agent_makes_sees_rotates_and_closes_its_inbox(api: Api) -> None:
    made = await make(api, attempt_id="a", metadata={"run": "7"}, policy={"senders": ["x.test"]})
    path = f"/v1/inboxes/{made['id']}"
    seen = (await api.call("GET", path, scopes=AGENT)).json()
    new = (await api.call("POST", f"{path}/rotate", scopes=AGENT)).json()
    again = (await api.call("POST", f"{path}/rotate", {"drain": 5}, scopes=AGENT)).json()
    old = (await api.call("GET", path, scopes=AGENT)).json()
    closed = await api.call("POST", f"/v1/inboxes/{new['id']}/close", {"drain": 0}, scopes=AGENT)

    assert made.pop("created") is True
    assert made == seen
    assert made["email"].endswith("@oncebox.test")
    assert (made["state"], made["metadata"]) == ("active", {"run": "7"})
    assert made["policy"]["senders"] == ["x.test"]
    assert made["active_until"] - made["created_at"] == 86_400_000
    assert new["id"] == again["id"] == old["rotated_to"]
    assert old["state"] == "draining"
    assert old["drains_until"] > old["created_at"]
    assert closed.json()["state"] == "closed"


async def test_a_repeat_is_the_same_inbox_and_other_words_are_a_conflict(api: Api) -> None:
    first = await make(api, attempt_id="a", metadata={"x": "1"})
    again = await make(api, attempt_id="a", metadata={"x": "1"})
    differs = await make(api, 409, attempt_id="a", metadata={"x": "2"})

    assert (again["id"], again["created"]) == (first["id"], False)
    assert differs["code"] == "inbox_conflict"
    assert "metadata" in differs["detail"]


async def test_an_owner_changes_the_policy_of_an_inbox(api: Api) -> None:
    made = await make(api, attempt_id="a", policy={"senders": ["x.test"], "purpose": "login"})
    path = f"/v1/inboxes/{made['id']}/policy"
    changes = {"senders": ["Y.test", "z.test"], "authenticated": False}
    changed = (await api.call("PATCH", path, changes, scopes=AGENT)).json()
    same = (await api.call("PATCH", path, changes, scopes=AGENT)).json()
    restored = (await api.call("PATCH", path, {"authenticated": None}, scopes=AGENT)).json()

    assert changed["policy"] == made["policy"] | {
        "senders": ["y.test", "z.test"],
        "authenticated": False,
    }
    assert (made["warnings"], changed["warnings"]) == ([], ["authentication_off"])
    assert same == changed
    assert (restored["policy"]["authenticated"], restored["warnings"]) == (None, [])


async def test_a_program_that_starts_again_finds_its_inbox_under_the_first_policy_too(
    api: Api,
) -> None:
    first = {"senders": ["x.test"]}
    made = await make(api, attempt_id="a", policy=first)
    path = f"/v1/inboxes/{made['id']}"
    for senders in (["y.test"], ["z.test"]):
        await api.call("PATCH", f"{path}/policy", {"senders": senders}, scopes=AGENT)
    again = await make(api, attempt_id="a", policy=first)
    current = await make(api, attempt_id="a", policy={"senders": ["z.test"]})
    between = await make(api, 409, attempt_id="a", policy={"senders": ["y.test"]})
    rotated = (await api.call("POST", f"{path}/rotate", scopes=AGENT)).json()
    after = await make(api, attempt_id="a", policy=first)

    assert (again["id"], current["id"]) == (made["id"], made["id"])
    assert again["policy"]["senders"] == ["z.test"]
    assert between["code"] == "inbox_conflict"
    assert (after["id"], after["policy"]["senders"]) == (rotated["id"], ["z.test"])


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"senders": ["not a sender"]}, 422, "inbox_invalid"),
        ({"link_origins": ["http://localhost:3000"]}, 403, "forbidden"),
        ({"sender": ["a.test"]}, 422, "fields_invalid"),
    ],
)
async def test_a_policy_that_cannot_be_kept_changes_nothing(
    api: Api, change: dict[str, Any], status: int, word: str
) -> None:
    made = await make(api)
    path = f"/v1/inboxes/{made['id']}"
    refused = await api.call("PATCH", f"{path}/policy", change, scopes=AGENT)

    assert (refused.status_code, refused.json()["code"]) == (status, word)
    assert (await api.call("GET", path, scopes=AGENT)).json()["policy"] == made["policy"]


async def test_only_its_owner_changes_the_policy_of_an_open_inbox(api: Api) -> None:
    made = await make(api, scopes=("operator",))
    path = f"/v1/inboxes/{made['id']}"
    foreign = await api.call("PATCH", f"{path}/policy", {"resends": 2}, scopes=AGENT)
    await api.call("POST", f"{path}/close", {"drain": 0}, scopes=("operator",))
    closed = await api.call("PATCH", f"{path}/policy", {"resends": 2}, scopes=("operator",))

    assert foreign.json()["code"] == "not_found"
    assert (closed.status_code, closed.json()["code"]) == (409, "state_conflict")
    assert "oncebox inbox new" in closed.json()["detail"]


async def test_the_same_request_gets_the_first_answer(api: Api) -> None:
    headers = {"Idempotency-Key": "k1"}
    answers = [
        await api.call("POST", "/v1/inboxes", {"label": "x"}, scopes=AGENT, headers=headers)
        for _ in range(2)
    ]
    none = await api.call(
        "POST", "/v1/inboxes", {"label": "x"}, scopes=AGENT, headers={"Idempotency-Key": ""}
    )

    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert none.json()["code"] == "idempotency_key_missing"


async def test_several_are_made_at_once_all_or_none(api: Api) -> None:
    await make(api, attempt_id="a5")
    wishes = [{"attempt_id": f"a{number}"} for number in range(20)]
    made = await api.call("POST", "/v1/inboxes/batch", {"inboxes": wishes}, scopes=AGENT)
    bad = await api.call(
        "POST",
        "/v1/inboxes/batch",
        {"inboxes": [{"attempt_id": "new"}, {"attempt_id": "a1", "metadata": {"x": "y"}}]},
        scopes=AGENT,
    )
    many = await api.call("POST", "/v1/inboxes/batch", {"inboxes": [{}] * 501}, scopes=AGENT)
    none = await api.call("GET", "/v1/inboxes", params={"attempt_id": "new"}, scopes=AGENT)

    data = made.json()["data"]
    assert [each["attempt_id"] for each in data] == [each["attempt_id"] for each in wishes]
    assert [each["created"] for each in data].count(False) == 1
    assert (bad.status_code, bad.json()["code"]) == (409, "inbox_conflict")
    assert (many.status_code, none.json()["data"]) == (422, [])


async def test_inboxes_are_listed_in_pages_and_by_attempt_and_state(api: Api) -> None:
    ids = [(await make(api, attempt_id=str(number % 2), label=str(number)))["id"]
           for number in range(7)]  # fmt: skip
    await api.call("POST", f"/v1/inboxes/{ids[3]}/close", {"drain": 0}, scopes=AGENT)
    found: list[str] = []
    cursor: dict[str, Any] = {}
    while len(found) < 7:
        page = await api.call("GET", "/v1/inboxes", params={"limit": 3, **cursor}, scopes=AGENT)
        found += [each["id"] for each in page.json()["data"]]
        cursor = {"cursor": page.json()["next_cursor"]}

    async def listed(**params: str) -> list[str]:
        answer = await api.call("GET", "/v1/inboxes", params=params, scopes=AGENT)
        return [each["id"] for each in answer.json()["data"]]

    first = await api.call("GET", "/v1/inboxes", params={"limit": 3}, scopes=AGENT)
    other = {"cursor": first.json()["next_cursor"], "attempt_id": "1"}
    carried = await api.call("GET", "/v1/inboxes", params=other, scopes=AGENT)

    assert found == ids[::-1]
    assert await listed(attempt_id="1") == [ids[5], ids[3], ids[1]]
    assert await listed(state="closed") == [ids[3]]
    assert carried.status_code == 404


async def test_an_agent_sees_only_its_own_and_an_operator_all(api: Api) -> None:
    other = (await api.call("POST", "/v1/keys", {"scopes": ["agent"]})).json()["key"]
    mine = await make(api, attempt_id="a")
    theirs = await make(api, attempt_id="b", key=other)

    async def status(path: str, method: str = "GET", **rest: Any) -> int:
        return (await api.call(method, path, **rest)).status_code

    for path in (f"/v1/inboxes/{theirs['id']}", f"/v1/inboxes/{theirs['id']}/stats",
                 "/v1/attempts/b/stats"):  # fmt: skip
        assert await status(path, scopes=AGENT) == 404
        assert await status(path, key=other) == 200
        assert await status(path, scopes=("operator",)) == 200
    for verb in ("close", "rotate"):
        path = f"/v1/inboxes/{theirs['id']}/{verb}"
        assert await status(path, "POST", scopes=AGENT) == 404
    listed = (await api.call("GET", "/v1/inboxes", scopes=AGENT)).json()["data"]
    everything = (await api.call("GET", "/v1/inboxes", scopes=("operator",))).json()["data"]

    assert [each["id"] for each in listed] == [mine["id"]]
    assert [each["id"] for each in everything] == [theirs["id"], mine["id"]]


async def test_only_operators_choose_an_address(api: Api) -> None:
    refused = await make(api, 403, local="support")
    made = await make(api, local="Support", scopes=("operator",))
    taken = await make(api, 409, local="support", scopes=("operator",))

    assert refused["code"] == "forbidden"
    assert made["email"] == "support@oncebox.test"
    assert taken["code"] == "address_taken"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"domain": "not a domain"}, "address_invalid"),
        ({"policy": {"senders": ["not a sender"]}}, "inbox_invalid"),
        ({"metadata": {str(number): "x" for number in range(17)}}, "fields_invalid"),
        ({"metadata": {"x": 1}}, "fields_invalid"),
        ({"metadata": {"x": "a\nb"}}, "fields_invalid"),
        ({"lifetime": -1}, "fields_invalid"),
        ({"attempt_id": ""}, "fields_invalid"),
        ({"policy": {"purpose": "fun"}}, "fields_invalid"),
        ({"colour": "red"}, "fields_invalid"),
    ],
)
async def test_what_cannot_be_made_is_refused(api: Api, fields: dict[str, Any], code: str) -> None:
    answer = await api.call("POST", "/v1/inboxes", fields, scopes=AGENT)

    assert (answer.status_code in {400, 422}, answer.json()["code"]) == (True, code)


async def test_the_figures_of_an_inbox_begin_at_nothing(api: Api) -> None:
    made = await make(api, attempt_id="a/b c")
    one = (await api.call("GET", f"/v1/inboxes/{made['id']}/stats", scopes=AGENT)).json()
    all_ = (await api.call("GET", "/v1/attempts/a%2Fb%20c/stats", scopes=AGENT)).json()

    for stats in (one, all_):
        assert (stats["messages"], stats["duplicates"], stats["matched"]) == (0, 0, 0)
        assert stats["first_message_at"] is stats["time_to_first_message"] is None
    assert (one["id"], one["state"], one["missed_at"]) == (made["id"], "active", None)
    assert all_["states"] == {"active": 1, "draining": 0, "closed": 0, "expired": 0}
    assert (all_["attempt_id"], all_["inboxes"], all_["missed"]) == ("a/b c", 1, 0)


async def test_mail_finds_an_inbox_at_once_and_not_after_its_close(api: Api) -> None:
    made = await make(api)
    local, _, domain = made["email"].partition("@")
    find = api.box.components.recipients.find
    before = await find(local, domain)
    await api.call("POST", f"/v1/inboxes/{made['id']}/close", {"drain": 0}, scopes=AGENT)
    after = await find(local, domain)

    assert (before.status, before.inbox_id) == (RecipientStatus.OPEN, made["id"])
    assert after.status is RecipientStatus.CLOSED


def test_the_policy_that_is_sent_is_the_policy_that_is_kept() -> None:
    kinds = {each.name: each.type for each in msgspec.structs.fields(Policy)}

    assert Policy.__struct_fields__ == InboxPolicy.__struct_fields__
    assert set(get_args(kinds["purpose"])) == set(Purpose)


# domains


async def test_a_domain_is_added_with_its_records_listed_and_removed(api: Api) -> None:
    added = await api.call("POST", "/v1/domains", {"name": "In.Example.com", "catch_all": True})
    listed = (await api.call("GET", "/v1/domains", scopes=("operator",))).json()["data"]
    find = api.box.components.recipients.find
    caught = await find("anybody", "in.example.com")
    removed = await api.call("DELETE", "/v1/domains/in.example.com")
    gone = await api.call("DELETE", "/v1/domains/in.example.com")
    after = await find("anybody", "in.example.com")

    domain = added.json()
    assert added.status_code == 201
    assert domain["name"] == "in.example.com"
    assert [(each["type"], each["value"]) for each in domain["records"]] == [
        ("MX", "10 mail.in.example.com."),
        ("TXT", '"v=spf1 mx -all"'),
    ]
    assert [(each["name"], each["is_default"]) for each in listed] == [
        ("in.example.com", False),
        ("oncebox.test", True),
    ]
    assert (caught.status, caught.inbox_id) == (RecipientStatus.OPEN, domain["catch_all"])
    assert (removed.status_code, gone.status_code) == (204, 404)
    assert after.status is RecipientStatus.NOT_OURS


async def test_a_domain_belongs_to_one_tenant(api: Api) -> None:
    await api.second_tenant()
    await api.call("POST", "/v1/domains", {"name": "mine.test"})
    taken = await api.call("POST", "/v1/domains", {"name": "mine.test"}, tenant=OTHER)
    default = await api.call("POST", "/v1/domains", {"name": "oncebox.test"}, tenant=OTHER)
    used = await make(api, 404, domain="mine.test", tenant=OTHER)
    needed = await make(api, 409, tenant=OTHER)
    listed = (await api.call("GET", "/v1/domains", tenant=OTHER)).json()["data"]

    assert [each.json()["code"] for each in (taken, default)] == ["domain_unproven"] * 2
    assert (used["code"], needed["code"], listed) == ("domain_unknown", "domain_required", [])


def ask(api: Api, server: NameServer) -> DomainProofs:
    """Have a name server asked for proofs."""
    mail = MailSettings(dns_servers=server.address)
    settings = msgspec.structs.replace(api.box.settings, mail=mail)
    proofs = api.box.components.domain_proofs
    proofs._find_txt = wiring._txt_lookup(settings)
    return proofs


async def test_another_tenant_proves_a_domain_by_dns_and_the_operator_needs_no_proof(
    place: Place,
) -> None:
    async with NameServer().running() as server, calling(place) as api:
        ask(api, server)
        await api.second_tenant()
        vouched = await api.call("POST", "/v1/domains", {"name": "in.example.com"})
        body = {"name": "in.example.org"}
        refused = await api.call("POST", "/v1/domains", body, tenant=OTHER)
        _, name, _, value = re.findall(r"(record) (\S+) (TXT) \"(\S+)\"", refused.json()["detail"])[
            0
        ]
        server.records["txt", name.removesuffix(".")] = [f'"{value}"']
        added = await api.call("POST", "/v1/domains", body, tenant=OTHER)
        again = await api.call("POST", "/v1/domains", body, tenant=OTHER)

    assert (vouched.status_code, added.status_code) == (201, 201)
    assert (refused.status_code, refused.json()["code"]) == (409, "domain_unproven")
    assert name == "_oncebox.in.example.org."
    assert again.json()["code"] == "domain_taken"


async def test_a_proof_is_of_one_tenant_and_one_domain(api: Api) -> None:
    proofs = api.box.components.domain_proofs
    asked = [(tenant, name) for tenant in ("a", "b") for name in ("x.example.org", "y.example.org")]

    assert len({proofs.record(*each).value for each in asked}) == 4
    assert proofs.record("a", "X.example.org") == proofs.record("a", "x.example.org")


async def test_who_has_a_domain_is_told_to_nobody_who_owns_it_or_not(place: Place) -> None:
    async with NameServer().running() as server, calling(place) as api:
        proofs = ask(api, server)
        await api.second_tenant()
        await api.call("POST", "/v1/domains", {"name": "taken.example.org"})
        said = {}
        for name in ("free.example.org", "taken.example.org", "sub.taken.example.org"):
            for proven in (False, True):
                record = proofs.record(OTHER, name)
                if proven:
                    server.records["txt", record.name.removesuffix(".")] = [record.value]
                answer = await api.call("POST", "/v1/domains", {"name": name}, tenant=OTHER)
                problem = answer.json()
                text = problem.get("detail", "").replace(record.value, "").replace(name, "")
                said[name, proven] = (answer.status_code, problem.get("code"), text)

    assert said.pop(("free.example.org", True))[0] == 201
    assert len(set(said.values())) == 1


async def test_the_public_id_of_another_tenants_source_cannot_be_asked_for(api: Api) -> None:
    await api.second_tenant()
    await api.add_source("stripe")
    body = {"scheme": "none", "allow_unsigned": True, "mode": "pull"}
    said = set()
    for public_id in ("stripe", "nobody-has-it"):
        asked = {**body, "name": "mine", "public_id": public_id}
        answer = await api.call("POST", "/v1/sources", asked, tenant=OTHER)
        said.add((answer.status_code, answer.json()["code"], answer.json()["detail"]))

    assert {(status, code) for status, code, _ in said} == {(403, "forbidden")}
    assert len(said) == 1


async def test_the_default_domain_is_not_removed(api: Api) -> None:
    answer = await api.call("DELETE", "/v1/domains/oncebox.test")

    assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict")
