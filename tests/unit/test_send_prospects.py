"""What is said of a send's future is true of its state, and says who must act."""

from typing import Any

import msgspec
import pytest

from oncebox.model.send import ENDED, OnUnknown, Retention, Send, SendState
from oncebox.model.send_prospects import next_action

NOW = 1_000_000
S = SendState


def send(state: SendState, **more: Any) -> Send:
    found = Send(
        id="snd_1", tenant="default", key=b"", protected=b"", content=b"", state=state,
        transport="relay", message_id="<a@example.com>", event_type="e", entity_id="1",
        owner=None, attempt_id=None, delivery_id=None, effect=None, on_unknown=OnUnknown.HOLD,
        again=None, created_at=0, send_at=None, valid_until=None, due_at=NOW, fence=0, tries=0,
        epoch=0, rearms=0, worker=None, claimed_at=None, marked_at=None, in_doubt_at=None,
        replay_until=None, code=None, phase=None, reply=0, provider_id="",
        retention=Retention.TRANSACTIONAL, ended_at=None, purged_at=None, body_id="snd_1", size=1,
        delivery=None, delivery_at=None,
    )  # fmt: skip
    return msgspec.structs.replace(found, **more)


@pytest.mark.parametrize("state", SendState)
def test_every_state_has_a_sentence(state: SendState) -> None:
    said = next_action(send(state), NOW)

    assert said.startswith("nothing") == (state in ENDED)
    assert said.startswith("needs a person") == (state is S.UNKNOWN)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (send(S.PENDING, send_at=NOW + 1, due_at=NOW + 1), "for its time"),
        (send(S.PENDING, tries=3), "next try"),
        (send(S.CLAIMED, due_at=NOW + 1), "holds the lease"),
        (send(S.CLAIMED, in_doubt_at=1), "unknown again"),
        (send(S.CLAIMED), "the next worker takes it"),
        (send(S.SENDING, due_at=NOW + 1), "being handed over"),
        (send(S.SENDING), "becomes unknown"),
        (send(S.UNKNOWN, again=OnUnknown.RESEND), "sent again"),
        (send(S.UNKNOWN, again=OnUnknown.REPLAY, replay_until=NOW + 1), "same key"),
        (send(S.UNKNOWN, again=OnUnknown.REPLAY, replay_until=NOW), "needs a person"),
        (send(S.FAILED, purged_at=1), "no longer kept"),
        (send(S.SENT, purged_at=1), "duplicate"),
    ],
)
def test_the_sentence_says_what_is_waited_for(found: Send, word: str) -> None:
    assert word in next_action(found, NOW)
