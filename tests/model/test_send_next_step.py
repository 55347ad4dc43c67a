"""What is said of a send's future is true of its state, and says who must act."""

from typing import Any

import pytest

from oncebox.model.sends.send import FINAL_STATES, OnUnknown, Send, SendState, next_step

NOW = 1_000_000
S = SendState


def send(state: SendState, **more: Any) -> Send:
    found = {
        **dict.fromkeys(Send.__struct_fields__),
        "state": state,
        "on_unknown": OnUnknown.HOLD,
        "due_at": NOW,
        "tries": 0,
    }
    return Send(**{**found, **more})


@pytest.mark.parametrize("state", SendState)
def test_every_state_has_a_sentence(state: SendState) -> None:
    said = next_step(send(state), NOW)

    assert said.startswith("nothing") == (state in FINAL_STATES)
    assert said.startswith("needs a person") == (state is S.UNKNOWN)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (send(S.PENDING, send_at=NOW + 1, due_at=NOW + 1), "for its time"),
        (send(S.PENDING, tries=3), "next try"),
        (send(S.CLAIMED, due_at=NOW + 1), "holds the lease"),
        (send(S.CLAIMED, unknown_since=1), "unknown again"),
        (send(S.CLAIMED), "the next worker takes it"),
        (send(S.SENDING, due_at=NOW + 1), "being transmitted"),
        (send(S.SENDING), "becomes unknown"),
        (send(S.UNKNOWN, repeat_mode=OnUnknown.RESEND), "sent again"),
        (send(S.UNKNOWN, repeat_mode=OnUnknown.REPLAY, replay_until=NOW + 1), "same key"),
        (send(S.UNKNOWN, repeat_mode=OnUnknown.REPLAY, replay_until=NOW), "needs a person"),
        (send(S.FAILED, purged_at=1), "no longer kept"),
        (send(S.SENT, purged_at=1), "duplicate"),
    ],
)
def test_the_sentence_says_what_is_waited_for(found: Send, word: str) -> None:
    assert word in next_step(found, NOW)
