"""A service that is killed between a word on an action and its answer: the word is said again."""

import base64
from pathlib import Path
from typing import Any

import httpx2
import pytest

from oncebox.ledger.admin import idempotency
from tests.cli.services import Running, Services
from tests.support.databases import Place
from tests.torture.processes import Children

AT = "/v1/attempts/signup-42/actions/verify"
RESEND = "/v1/attempts/signup-42/resend"
BEGIN = (AT, {"request_key": "request-1"})
DONE = (f"{AT}/done", {"fence": 1, "result": "first"})
#: where it dies, what is said before, what is said then and again, and what is told at last
CASES: dict[str, tuple[list[Any], Any, dict[str, Any]]] = {
    "actions.begun-not-committed": ([], BEGIN, {"state": "begun", "fence": 1}),
    "actions.begun": ([], BEGIN, {"state": "begun", "fence": 1}),
    "actions.done-not-committed": ([BEGIN], DONE, {"state": "done", "result": "first"}),
    "actions.done": ([BEGIN], DONE, {"state": "done", "result": "first"}),
    "actions.resend-not-committed": ([BEGIN], (RESEND, {}), {"number": 1, "left": 0}),
    "actions.resend": ([BEGIN], (RESEND, {}), {"number": 1, "left": 0}),
}


def say(service: Running, word: tuple[str, Any], key: str = "the-same") -> httpx2.Response:
    path, body = word
    with service.client() as client:
        return client.post(path, json=body, headers={"Idempotency-Key": key})


@pytest.mark.timeout(180)
@pytest.mark.parametrize("point", CASES)
def test_a_word_without_an_answer_is_said_again_and_counts_once(
    place: Place, tmp_path: Path, point: str
) -> None:
    before, word, told = CASES[point]
    with Children(tmp_path) as children:
        services = Services(tmp_path, children)
        services.set("ONCEBOX_DATABASE_URL", place.url)
        services.set("ONCEBOX_MASTER_KEY", base64.b64encode(bytes(32)).decode())
        services.set("ONCEBOX_FAULTS", f"{point}:1:kill")
        victim = services.serve()
        for each in before:
            # Words before the one that matters pass their own points, which are not armed.
            assert say(victim, each).status_code == 200
        with pytest.raises(httpx2.TransportError):
            say(victim, word)
        victim.child.clean_away()
        _forget_who_was_answering(place)
        services.set("ONCEBOX_FAULTS", "")
        service = services.serve()
        again = say(service, word).json()
        others = [say(service, BEGIN), say(service, (RESEND, {}), "another")]
        service.child.terminate()
        service.child.wait()

    assert {name: again[name] for name in told} == told
    if word[0] == RESEND:
        assert (others[1].status_code, others[1].json()["code"]) == (409, "resend_limit_reached")
    else:
        assert others[0].json()["state"] == ("done" if word is DONE else "begun")


def _forget_who_was_answering(place: Place) -> None:
    """Let a minute pass for requests whose process was lost."""
    age = idempotency.LOST_AFTER + 1
    session = place.session()
    session.run(
        lambda tx: tx.execute(
            f"UPDATE oncebox_idempotency SET started_at = started_at - {age}"  # noqa: S608
        )
    )
    session.close()
