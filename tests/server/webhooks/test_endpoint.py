"""Webhooks at the door: what is let in is on disk, once; what is not is kept apart."""

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest
import stripe
from standardwebhooks import Webhook

from oncebox.errors import SignatureInvalid
from oncebox.ledger.deliveries import quarantine
from oncebox.model.deliveries.delivery import DeliveryState
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.hookserver import SECRET, HookServer, github, serving
from tests.support.outage import held_tables


@pytest.fixture
async def server(place: Place) -> AsyncIterator[HookServer]:
    """Serve webhooks."""
    async with serving(place) as server:
        yield server


async def test_a_signed_request_is_on_disk_when_it_is_answered(server: HookServer) -> None:
    await server.source("github")

    answer = await server.post_github({"ref": "main"}, "d-1")

    assert (answer.status_code, answer.json()) == (200, {"status": "accepted"})
    (stored,) = server.clerk.all()
    assert (stored.source, stored.key, stored.type) == ("github", "d-1", "push")
    assert stored.state is DeliveryState.RECEIVED


async def test_a_request_is_answered_in_time_when_the_database_hangs(
    server: HookServer, place: Place
) -> None:
    await server.source("github")
    await server.post_github({"ref": "main"}, "d-0")
    server.rooms.database.deadline = 0.3
    with held_tables(place):
        refused = [await server.post_github({"n": each}, f"d-{each}") for each in (1, 2)]

    assert [each.status_code for each in refused] == [503] * 2
    assert all(each.headers["retry-after"] for each in refused)
    assert {each.json()["code"] for each in refused} <= {"commit_overdue", "database_overdue"}
    assert 'code="commit_overdue",path="webhook"' in server.rooms.telemetry.scrape()
    server.rooms.database.deadline = 20
    while server.rooms.database.overdue:  # noqa: ASYNC110 - it ends by itself
        await asyncio.sleep(0.01)
    for each in (1, 2):  # a provider sends it again
        assert (await server.post_github({"n": each}, f"d-{each}")).status_code == 200
    assert sorted(each.key for each in server.clerk.all()) == ["d-0", "d-1", "d-2"]


async def test_the_raw_bytes_and_headers_are_kept_as_they_came(server: HookServer) -> None:
    await server.source("github")
    body = b'{ "a" : "\\u00e9", "b":1.0 }\r\n'

    await server.post("github", body, github(body))

    delivery = server.claim("github")[0]
    assert delivery.body == body
    assert ("x-github-delivery", "d-1") in delivery.headers


async def test_a_provider_s_retry_is_one_delivery(server: HookServer) -> None:
    await server.source("github")

    answers = [await server.post_github({"n": 1}, "d-1") for _ in range(5)]

    assert [each.status_code for each in answers] == [200] * 5
    assert len(server.clerk.all()) == 1


async def test_a_fresh_unsigned_id_over_a_known_body_is_held(server: HookServer) -> None:
    await server.source("github")
    await server.post_github({"n": 1}, "d-1")

    answer = await server.post_github({"n": 1}, "d-2")

    assert answer.status_code == 200
    states = {each.key: each.state for each in server.clerk.all()}
    assert states == {"d-1": DeliveryState.RECEIVED, "d-2": DeliveryState.HELD}


@pytest.mark.parametrize("first", ["d-1", None])
async def test_a_known_body_is_not_run_again_because_its_unsigned_id_is_gone(
    server: HookServer, first: str | None
) -> None:
    await server.source("github")
    body = b'{"n": 1}'
    bare = {name: value for name, value in github(body).items() if name != "x-github-delivery"}
    both = [bare, github(body, "d-1")]

    for headers in both if first is None else reversed(both):
        assert (await server.post("github", body, headers)).status_code == 200

    states = sorted(each.state for each in server.clerk.all())
    assert states == [DeliveryState.HELD, DeliveryState.RECEIVED]


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"From=1&To=2", b"To=2&From=1"),
        (b"From=1&To=2", b"From=%31&To=2"),
        (b"From=1&To=2", b"From=1T&o=2"),
        (b"MessageSid=S1&SmsStatus=sent", b"MessageSid=S1SmsStatus&sent="),
    ],
)
async def test_a_form_that_is_spelled_otherwise_under_its_old_signature_does_not_run(
    server: HookServer, first: bytes, again: bytes
) -> None:
    url = "https://x.test/in/twilio"
    await server.source("twilio", public_url=url)
    content = url.encode() + first.replace(b"&", b"").replace(b"=", b"")
    signature = hmac.digest(SECRET.encode(), content, "sha1")
    headers = {"x-twilio-signature": base64.b64encode(signature).decode()}

    for body in (first, again):
        assert (await server.post("twilio", body, headers)).status_code == 200

    (run,) = server.claim("twilio")
    assert run.body == first


async def test_racing_replays_run_once(server: HookServer) -> None:
    await server.source("github")

    await asyncio.gather(*(server.post_github({"n": 1}, f"d-{n}") for n in range(20)))

    states = [each.state for each in server.clerk.all()]
    assert (states.count(DeliveryState.RECEIVED), states.count(DeliveryState.HELD)) == (1, 19)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"x-hub-signature-256": "sha256=" + "0" * 64}, 401),
        ({"x-hub-signature-256": ""}, 401),
        ({"x-hub-signature-256": "sha256="}, 401),
        ({"x-hub-signature-256": "sha1=" + "0" * 40}, 401),
        ({"x-hub-signature-256": "sha256=" + "0" * 4000}, 401),
    ],
)
async def test_a_bad_signature_stores_nothing_and_reveals_nothing(
    server: HookServer, change: dict[str, str], status: int
) -> None:
    await server.source("github")
    body = b'{"n":1}'

    answer = await server.post("github", body, github(body) | change)

    assert answer.status_code == status
    assert answer.json()["code"] == "signature_refused"
    assert SECRET not in answer.text
    assert server.clerk.all() == []


async def test_a_rejected_request_is_kept_apart_with_its_reason(server: HookServer) -> None:
    await server.source("github")
    body = b'{"n":1}'

    await server.post("github", body, github(body, secret="wrong"))

    await server.rooms.quarantine.close()
    rows = server.clerk.run(
        lambda tx: tx.execute("SELECT source, reason, class FROM oncebox_quarantine")
    )
    assert rows == [("github", "signature_mismatch", "forged")]


async def test_each_change_of_one_byte_is_refused(server: HookServer) -> None:
    await server.source("github")
    body = b'{"n":1}'
    for place in range(len(body)):
        changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        assert (await server.post("github", changed, github(body))).status_code == 401


async def test_unknown_paused_and_unready_sources(server: HookServer) -> None:
    await server.source("github")
    await server.source("paused", "github", paused=True)
    await server.source("unready", "github", "env:NOT_SET_ANYWHERE")

    unknown = await server.post("nowhere", b"{}")
    paused = await server.post_github({}, path="paused")
    unready = await server.post_github({}, path="unready")

    assert (unknown.status_code, unknown.json()["code"]) == (404, "source_unknown")
    told = "no source has this address; list them with: oncebox source list"
    assert unknown.json()["detail"] == told
    for answer in (paused, unready):
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
    assert server.clerk.all() == []


async def test_a_late_request_with_a_signed_id_is_held_not_lost(server: HookServer) -> None:
    await server.source("stripe")
    body = json.dumps({"id": "evt_1", "type": "invoice.paid"})
    old = server.rooms.database.clock() // 1000 - 3600
    signature = stripe.WebhookSignature._compute_signature(f"{old}.{body}", SECRET)

    answer = await server.post(
        "stripe", body.encode(), {"stripe-signature": f"t={old},v1={signature}"}
    )

    assert answer.status_code == 200
    (stored,) = server.clerk.all()
    assert (stored.key, stored.state) == ("evt_1", DeliveryState.HELD)


@pytest.mark.parametrize(("late", "state"), [({}, "received"), ({"late": "hold"}, "held")])
async def test_a_late_request_runs_where_its_scheme_or_its_source_says_so(
    server: HookServer, late: dict[str, str], state: str
) -> None:
    await server.source("paddle", **late)
    body = b'{"event_id": "evt_1", "event_type": "transaction.paid"}'
    old = server.rooms.database.clock() // 1000 - 60
    signature = hmac.digest(SECRET.encode(), b"%d:%b" % (old, body), "sha256").hex()

    await server.post("paddle", body, {"paddle-signature": f"ts={old};h1={signature}"})

    (stored,) = server.clerk.all()
    assert (stored.key, stored.state) == ("evt_1", state)


async def test_a_late_request_of_linear_runs_once(server: HookServer) -> None:
    await server.source("linear")
    old = server.rooms.database.clock() - 3_600_000
    body = json.dumps({"type": "Issue", "webhookTimestamp": old}).encode()
    signature = hmac.digest(SECRET.encode(), body, "sha256").hex()

    for delivery in ("d-1", "d-1", "d-2"):
        headers = {"linear-signature": signature, "linear-delivery": delivery}
        assert (await server.post("linear", body, headers)).status_code == 200

    states = {each.key: each.state for each in server.clerk.all()}
    assert states == {"d-1": DeliveryState.RECEIVED, "d-2": DeliveryState.HELD}


async def test_several_secrets_count_and_the_one_that_fits_is_recorded(
    server: HookServer,
) -> None:
    await server.source("github", None, "new-secret", "old-secret")
    body = b'{"n":1}'

    answer = await server.post("github", body, github(body, secret="old-secret"))

    assert answer.status_code == 200
    (row,) = server.clerk.run(lambda tx: tx.execute("SELECT secret_id FROM oncebox_deliveries"))
    entry = server.rooms.sources.find(TENANT, "github")
    assert entry is not None
    fits = {secret.value: secret.id for secret in entry.source.secrets}
    assert row[0] == fits["old-secret"]


async def test_the_elements_of_a_batch_are_deliveries_of_their_own(server: HookServer) -> None:
    await server.source("batch", "generic-hmac", options={"batch": "$[*]", "id": "$.id"})
    body = b'[{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "a", "n": 1}]'
    headers = {"x-signature": github(body)["x-hub-signature-256"]}

    answer = await server.post("batch", body, headers)

    assert answer.status_code == 200
    claimed = server.claim("batch")
    assert {each.key: each.body for each in claimed} == {
        "a": b'{"id": "a", "n": 1}',
        "b": b'{"id": "b", "n": 2}',
    }


async def test_a_body_that_is_no_json_is_stored_all_the_same(server: HookServer) -> None:
    await server.source("generic", "generic-hmac", options={"id": "$.id"})
    body = b"\xff\x00 not json"

    answer = await server.post(
        "generic", body, {"x-signature": github(body)["x-hub-signature-256"]}
    )

    assert answer.status_code == 200
    assert [each.body for each in server.claim("generic")] == [body]


async def test_a_compressed_body_is_kept_as_it_came(server: HookServer) -> None:
    await server.source("github")
    body = gzip.compress(b'{"n":1}')

    answer = await server.post("github", body, github(body) | {"content-encoding": "gzip"})

    assert answer.status_code == 200
    assert [each.body for each in server.claim("github")] == [body]


async def test_bodies_at_the_limit_pass_and_beyond_it_are_refused(server: HookServer) -> None:
    await server.source("github")
    limit = 64 * 1024
    at, beyond = b"x" * limit, b"x" * (limit + 1)

    assert (await server.post("github", at, github(at))).status_code == 200
    assert (await server.post("github", beyond, github(beyond))).status_code == 413
    assert len(server.clerk.all()) == 1


async def test_a_request_from_elsewhere_is_refused(server: HookServer) -> None:
    await server.source("far", "github", cidrs=["10.0.0.0/8"])
    await server.source("repo", "github", expect={"$.repository.full_name": "acme/app"})

    far = await server.post_github({"n": 1}, path="far")
    other = await server.post_github({"repository": {"full_name": "eve/app"}}, path="repo")
    ours = await server.post_github({"repository": {"full_name": "acme/app"}}, path="repo")

    assert (far.status_code, other.status_code, ours.status_code) == (403, 403, 200)


async def test_events_of_one_lane_run_one_at_a_time(server: HookServer) -> None:
    await server.source("github", order_by="$.issue")
    for number in range(3):
        await server.post_github({"issue": 7, "n": number}, f"d-{number}")

    claimed = server.claim("github")

    assert [each.key for each in claimed] == ["d-0"]
    assert claimed[0].lane == "7"


async def test_standard_webhooks_are_let_in_once(server: HookServer) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    await server.source("standard", "standard-webhooks", secret)
    now = datetime.fromtimestamp(server.rooms.database.clock() // 1000, UTC)
    body = '{"type":"email.received"}'
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", now, body),
    }

    for _ in range(2):
        assert (await server.post("standard", body.encode(), headers)).status_code == 200
    changed = await server.post("standard", body.encode(), headers | {"webhook-id": "msg_2"})

    assert changed.status_code == 401
    assert [(each.key, each.type) for each in server.clerk.all()] == [("msg_1", "email.received")]


async def test_slack_s_handshake_is_answered(server: HookServer) -> None:
    await server.source("slack")
    body = b'{"type":"url_verification","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmd"}'
    now = str(server.rooms.database.clock() // 1000)
    mac = hmac.new(SECRET.encode(), b"v0:" + now.encode() + b":" + body, hashlib.sha256)
    headers = {
        "x-slack-request-timestamp": now,
        "x-slack-signature": f"v0={mac.hexdigest()}",
        "content-type": "application/json",
    }

    answer = await server.post("slack", body, headers)

    assert answer.status_code == 200
    assert "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmd" in answer.text
    assert server.clerk.all() == []


async def test_other_methods_are_refused(server: HookServer) -> None:
    await server.source("github")

    assert (await server.client.head("/in/github")).status_code == 200
    assert (await server.client.get("/in/github")).status_code == 405
    assert (await server.client.put("/in/github")).status_code == 405


async def test_events_that_are_encoded_in_a_form_are_stored_by_themselves(
    server: HookServer,
) -> None:
    url = "https://hooks.example.com/in/mandrill"
    await server.source("mandrill", public_url=url)
    events = json.dumps([{"_id": "a", "event": "send"}, {"_id": "b", "event": "open"}])
    mac = hmac.new(SECRET.encode(), f"{url}mandrill_events{events}".encode(), hashlib.sha1)
    headers = {
        "x-mandrill-signature": base64.b64encode(mac.digest()).decode(),
        "content-type": "application/x-www-form-urlencoded",
    }

    answer = await server.post("mandrill", urlencode({"mandrill_events": events}).encode(), headers)

    assert answer.status_code == 200
    assert sorted(each.json["event"] for each in server.claim("mandrill")) == ["open", "send"]


async def test_a_rejected_request_is_accepted_once_its_secret_is_fixed(
    server: HookServer,
) -> None:
    await server.source("github", None, "old-secret")
    body = b'{"n":1}'
    assert (await server.post("github", body, github(body))).status_code == 401
    await server.rooms.quarantine.close()
    (listed,) = server.clerk.run(quarantine.newest, TENANT)
    kept = server.clerk.run(quarantine.get, TENANT, listed.id)
    rejected = quarantine.restore(kept, server.rooms.master_key)
    with pytest.raises(SignatureInvalid):
        await server.rooms.recheck_rejected(rejected)

    await server.add_secret("github", SECRET)

    (verified,) = await server.rooms.recheck_rejected(rejected)
    assert (verified.key, verified.body, verified.unsigned) == ("d-1", body, True)


async def test_a_request_from_elsewhere_is_not_taken_in_later(server: HookServer) -> None:
    await server.source("far", "none", cidrs=["10.0.0.0/8"], allow_unsigned=True)
    assert (await server.post("far", b"{}")).status_code == 403
    await server.rooms.quarantine.close()
    (listed,) = server.clerk.run(quarantine.newest, TENANT)
    kept = server.clerk.run(quarantine.get, TENANT, listed.id)

    with pytest.raises(SignatureInvalid, match="address_not_allowed"):
        await server.rooms.recheck_rejected(quarantine.restore(kept, server.rooms.master_key))
