"""The scripted provider, as a user meets it: with any HTTP client, in a thread."""

import asyncio
import json
import threading
from typing import Any

import httpx2
import pytest

from oncebox.testing.provider import ScriptedProvider
from oncebox.testing.provider_protocol import ProviderFault, ProviderFaultAction
from oncebox.testing.resend import KEY_LIFETIME, Resend
from oncebox.webhooks import registry
from tests.support.http import until

MAIL = {
    "from": "Ann <ann@example.com>",
    "to": ["bob@example.net"],
    "subject": "Hello",
    "text": "hello",
    "headers": {"Message-ID": "<one@example.com>"},
    "tags": [{"name": "oncebox", "value": "snd_1"}],
}
#: a client of its own for each request would load certificates each time
CLIENT = httpx2.Client(limits=httpx2.Limits(max_keepalive_connections=0))
SECRET = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0"


def post(
    provider: ScriptedProvider,
    mail: Any = MAIL,
    *,
    key: str | None = None,
    path: str = "/emails",
    api_key: str = "re_test",
    **headers: str,
) -> httpx2.Response:
    given = {"authorization": f"Bearer {api_key}", **headers}
    if key is not None:
        given["idempotency-key"] = key
    return CLIENT.post(provider.url + path, json=mail, headers=given, timeout=20)


def error(response: httpx2.Response) -> tuple[int, str]:
    said = response.json()
    assert said["statusCode"] == response.status_code
    return response.status_code, said["name"]


def test_a_mail_is_listed_as_it_was_sent() -> None:
    with ScriptedProvider() as provider:
        answer = post(provider, key="k")

        (taken,) = provider.accepted
        assert answer.json() == {"id": taken.id}
        assert (taken.key, taken.recipients) == ("k", ("bob@example.net",))
        assert (taken.message_id, taken.tags) == ("<one@example.com>", {"oncebox": "snd_1"})
        assert provider.count("<one@example.com>") == 1
        assert json.loads(taken.body) == MAIL
        assert "bob" not in repr(taken)
        assert "bob" not in repr(provider.received)


@pytest.mark.parametrize(
    ("fault", "taken"),
    [
        ("drop_before_body", 0), ("drop", 0), ("hang_up", 0),
        ("accept_then_drop", 1), ("accept_then_hang_up", 1),
    ],
)  # fmt: skip
def test_a_lost_answer_is_the_same_to_the_client_whether_the_mail_was_taken_or_not(
    fault: str, taken: int
) -> None:
    with ScriptedProvider() as provider:
        provider.script(fault)

        with pytest.raises(httpx2.TransportError):
            post(provider, key="k")
        assert (len(provider.accepted), provider.script_is_over) == (taken, True)
        assert post(provider, key="k").status_code == 200
        assert len(provider.accepted) == 1


@pytest.mark.parametrize("fault", ["silence", "accept_then_silence"])
def test_a_provider_may_never_answer(fault: str) -> None:
    with ScriptedProvider() as provider:
        provider.script(fault)

        with pytest.raises(httpx2.ReadTimeout):
            CLIENT.post(
                f"{provider.url}/emails", json=MAIL, timeout=0.3,
                headers={"authorization": "Bearer re_test", "idempotency-key": "k"},
            )  # fmt: skip
        assert len(provider.accepted) == ("accept" in fault)


@pytest.mark.parametrize(
    ("fault", "status", "name", "taken"),
    [
        ("accept_then_500", 500, "application_error", 1),
        ("500", 500, "application_error", 0),
        ("503", 503, "internal_server_error", 0),
        ("reject(422)", 422, "validation_error", 0),
        ("reject(401)", 401, "missing_api_key", 0),
        ("429(7)", 429, "rate_limit_exceeded", 0),
        ("409_concurrent", 409, "concurrent_idempotent_requests", 0),
        ("409_mismatch", 409, "invalid_idempotent_request", 0),
    ],
)
def test_an_error_is_answered_as_told(fault: str, status: int, name: str, taken: int) -> None:
    with ScriptedProvider() as provider:
        provider.script(fault)
        answer = post(provider)

        assert error(answer) == (status, name)
        assert answer.headers.get("retry-after") == ("7" if status == 429 else None)
        assert len(provider.accepted) == taken


@pytest.mark.parametrize(("fault", "taken"), [("200_garbage", 0), ("accept_then_garbage", 1)])
def test_a_200_may_be_rubbish(fault: str, taken: int) -> None:
    with ScriptedProvider() as provider:
        provider.script(fault)
        answer = post(provider)

        assert (answer.status_code, len(provider.accepted)) == (200, taken)
        with pytest.raises(ValueError, match="Expecting"):
            answer.json()


def test_a_key_is_answered_as_the_first_time_for_a_day() -> None:
    with ScriptedProvider() as provider:
        first = post(provider, key="k")
        provider.advance(KEY_LIFETIME - 60)

        assert post(provider, key="k").json() == first.json()
        assert post(provider, key="other").json() != first.json()
        assert len(provider.accepted) == 2
        provider.advance(61)
        assert post(provider, key="k").json() != first.json()
        assert len(provider.accepted) == 3


def test_a_key_belongs_to_one_payload_of_one_endpoint_of_one_account() -> None:
    with ScriptedProvider() as provider:
        post(provider, key="k")
        again = {name: MAIL[name] for name in reversed(MAIL)}

        assert error(post(provider, {**MAIL, "text": "x"}, key="k")) == (
            409,
            "invalid_idempotent_request",
        )
        assert error(post(provider, [MAIL], key="k", path="/emails/batch"))[0] == 409
        assert post(provider, again, key="k").status_code == 200
        assert len(provider.accepted) == 1
        post(provider, key="k", api_key="re_other")
        assert len(provider.accepted) == 2


def test_what_was_refused_leaves_its_key_free() -> None:
    with ScriptedProvider() as provider:
        assert error(post(provider, {**MAIL, "to": []}, key="k"))[0] == 422
        assert post(provider, key="k").status_code == 200


def test_a_key_under_way_is_refused_until_its_answer_is_given() -> None:
    with ScriptedProvider() as provider:
        provider.script("accept_then_silence")

        def first() -> None:
            with pytest.raises(httpx2.TransportError):
                CLIENT.post(
                    f"{provider.url}/emails", json=MAIL, timeout=1.0,
                    headers={"authorization": "Bearer re_test", "idempotency-key": "k"},
                )  # fmt: skip

        thread = threading.Thread(target=first)
        thread.start()
        asyncio.run(until(lambda: len(provider.accepted) == 1))
        for _ in range(2):
            assert error(post(provider, key="k")) == (409, "concurrent_idempotent_requests")
        thread.join()

        async def replayed() -> None:
            await until(lambda: post(provider, key="k").status_code == 200)

        asyncio.run(replayed())
        assert len(provider.accepted) == 1


@pytest.mark.parametrize("key", ["", "k" * 257])
def test_a_key_has_a_length(key: str) -> None:
    with ScriptedProvider() as provider:
        assert error(post(provider, key=key)) == (400, "invalid_idempotency_key")
        assert provider.accepted == []


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"from": ""}, "missing_required_field"),
        ({"to": []}, "missing_required_field"),
        ({"subject": ""}, "missing_required_field"),
        ({"text": None}, "validation_error"),
        ({"from": "ann"}, "validation_error"),
        ({"to": ["bob"]}, "validation_error"),
        ({"to": [f"b{number}@example.net" for number in range(51)]}, "validation_error"),
        ({"tags": [{"name": "a b", "value": "c"}]}, "validation_error"),
        ({"tags": [{"name": "a", "value": "c" * 257}]}, "validation_error"),
        ({"headers": {"X-A": "1\r\nBcc: eve@example.net"}}, "validation_error"),
        ({"headers": ["X-A"]}, "validation_error"),
        ({"attachments": [{"filename": "a.txt"}]}, "invalid_attachment"),
        ({"attachments": [{"filename": "a.txt", "content": "?"}]}, "invalid_attachment"),
        ({"unheard": 1}, "validation_error"),
    ],
)
def test_what_is_not_an_email_is_refused(changed: dict[str, Any], name: str) -> None:
    with ScriptedProvider() as provider:
        mail = {field: value for field, value in {**MAIL, **changed}.items() if value is not None}

        assert error(post(provider, mail)) == (422, name)
        assert provider.accepted == []


def test_who_asks_must_have_a_key() -> None:
    with ScriptedProvider(Resend(keys={"re_known"}, domains={"example.com"})) as provider:
        missing = CLIENT.post(f"{provider.url}/emails", json=MAIL)

        assert error(missing) == (401, "missing_api_key")
        assert error(post(provider, api_key="re_other")) == (403, "invalid_api_key")
        assert post(provider, api_key="re_known").status_code == 200
        elsewhere = post(provider, {**MAIL, "from": "ann@example.org"}, api_key="re_known")
        assert error(elsewhere) == (403, "validation_error")


def test_a_key_can_be_revoked_and_requests_counted() -> None:
    resend = Resend(rate=2)
    with ScriptedProvider(resend) as provider:
        answers = [post(provider).status_code for _ in range(3)]
        provider.advance(2)
        resend.revoked.add("re_test")

        assert answers == [200, 200, 429]
        assert error(post(provider)) == (403, "invalid_api_key")


def test_a_batch_is_taken_whole_or_not_at_all() -> None:
    with ScriptedProvider() as provider:
        batch = [MAIL, {**MAIL, "to": "kim@example.net"}]
        first = post(provider, batch, key="k", path="/emails/batch")
        again = post(provider, batch, key="k", path="/emails/batch")

        assert [each["id"] for each in first.json()["data"]] == [
            each.id for each in provider.accepted
        ]
        assert again.json() == first.json()
        assert len(provider.accepted) == 2
        broken = [MAIL, {**MAIL, "to": "kim"}]
        assert error(post(provider, broken, path="/emails/batch"))[0] == 422
        assert error(post(provider, [MAIL] * 101, path="/emails/batch"))[0] == 422
        assert error(post(provider, [], path="/emails/batch"))[0] == 422
        with_file = {**MAIL, "attachments": [{"filename": "a", "content": "YQ=="}]}
        assert error(post(provider, [with_file], path="/emails/batch"))[0] == 422
        assert len(provider.accepted) == 2


def test_a_batch_may_be_taken_in_part() -> None:
    with ScriptedProvider() as provider:
        lenient = {"x-batch-validation": "permissive"}
        told = post(provider, [{**MAIL, "to": "kim"}, MAIL], path="/emails/batch", **lenient)
        provider.script("partial_batch")
        half = post(provider, [MAIL] * 4, path="/emails/batch")

        assert [len(each.json()["data"]) for each in (told, half)] == [1, 2]
        assert [each["index"] for each in told.json()["errors"]] == [0]
        assert [each["index"] for each in half.json()["errors"]] == [2, 3]
        assert len(provider.accepted) == 3


def test_a_mail_can_be_asked_for_by_its_id() -> None:
    with ScriptedProvider() as provider:
        id_ = post(provider).json()["id"]
        headers = {"authorization": "Bearer re_test"}
        found = CLIENT.get(f"{provider.url}/emails/{id_}", headers=headers)
        other = CLIENT.get(f"{provider.url}/emails/nobody", headers=headers)
        nowhere = CLIENT.get(f"{provider.url}/nowhere", headers=headers)
        odd = CLIENT.put(f"{provider.url}/emails/{id_}", headers=headers)

        assert (found.json()["id"], found.json()["last_event"]) == (id_, "sent")
        assert [error(each) for each in (other, nowhere, odd)] == [
            (404, "not_found"),
            (404, "not_found"),
            (405, "method_not_allowed"),
        ]


def test_other_processes_ask_and_tell_by_http() -> None:
    with ScriptedProvider() as provider:
        wish = {"faults": ["accept_then_500"], "always": "reject(422)"}
        assert CLIENT.post(f"{provider.url}/__script", json=wish).status_code == 204
        statuses = [post(provider).status_code for _ in range(3)]
        CLIENT.post(f"{provider.url}/__script", json={"always": None})

        assert statuses == [500, 422, 422]
        assert post(provider).status_code == 200
        listed = CLIENT.get(f"{provider.url}/__accepted").json()
        assert [each["id"] for each in listed] == [each.id for each in provider.accepted]
        assert listed[0]["message_id"] == "<one@example.com>"
        bad = CLIENT.post(f"{provider.url}/__script", json={"faults": ["explode"]})
        assert bad.status_code == 400


def test_a_webhook_is_signed_as_resend_signs_it() -> None:
    with ScriptedProvider() as provider, ScriptedProvider() as ear:
        post(provider)
        (taken,) = provider.accepted
        hook = provider.webhook("email.bounced", taken, SECRET, bounce={"type": "Permanent"})
        body = json.loads(hook.body)

        assert body["type"] == "email.bounced"
        assert body["data"]["email_id"] == taken.id
        assert body["data"]["tags"] == {"oncebox": "snd_1"}
        assert body["data"]["bounce"] == {"type": "Permanent"}
        assert {"svix-id", "svix-timestamp", "svix-signature"} <= set(hook.headers)
        assert registry.find_scheme("resend").header == "svix-signature"
        assert provider.send_webhook(f"{ear.url}/in/x", "email.sent", taken, SECRET) == 401


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("ok", ProviderFault()),
        ("sleep(2)", ProviderFault(seconds=2)),
        ("sleep=2", ProviderFault(seconds=2)),
        ("accept_then_sleep(0.5)", ProviderFault(seconds=0.5, accepts_mail=True)),
        ("429(3)", ProviderFault(action=ProviderFaultAction.REFUSE, code=429, seconds=3)),
        ("drop_before_body", ProviderFault(action=ProviderFaultAction.DROP_BEFORE_BODY)),
    ],
)
def test_a_fault_has_a_name(name: str, fault: ProviderFault) -> None:
    assert ProviderFault.parse(name) == fault


@pytest.mark.parametrize("name", ["", "explode", "reject", "accept_then_", "200", "ok(", "sleep"])
def test_what_names_no_fault_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="there is no fault"):
        ProviderFault.parse(name)


async def test_it_runs_in_a_loop_of_its_user_too() -> None:
    async with ScriptedProvider() as provider, httpx2.AsyncClient() as client:
        answer = await client.post(
            f"{provider.url}/emails", json=MAIL, headers={"authorization": "Bearer re_test"}
        )

        assert (answer.status_code, len(provider.accepted)) == (200, 1)
