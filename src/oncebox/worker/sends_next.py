"""What comes after a try at a send: an end, another try, or another way. A pure decision."""

from collections.abc import Callable, Sequence

import msgspec

from oncebox.model.outcome import KEY_MISMATCH, Accepted, NotSent, Outcome, Rejected
from oncebox.model.send import Send, SendWord
from oncebox.model.transport import GIVEN_BACK, LOG, STORE_AWAY, Transport, strains

#: doublings after which every wait is the longest one
_MOST_DOUBLINGS = 40
#: codes of tries that were ended by us, and say nothing of the send
_OURS = frozenset({GIVEN_BACK, STORE_AWAY})


class SendRules(msgspec.Struct, frozen=True, kw_only=True):
    """How often a send is tried, and the waits between; times in milliseconds."""

    tries: int = 12
    first_wait: int = 5_000
    longest_wait: int = 3_600_000


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision is made by, besides the try itself."""

    now: int
    #: between 0 and 1
    random: Callable[[], float]
    #: the tenant's ways, those that are taken first first
    ways: Sequence[Transport] = ()


def after(send: Send, outcome: Outcome, rules: SendRules, moment: Moment) -> SendWord:
    """Return the word on a try, with what is to come."""
    word = SendWord(
        tenant=send.tenant,
        id=send.id,
        fence=send.fence,
        outcome=outcome,
        transport=send.transport,
    )
    if isinstance(outcome, Accepted | Rejected) or outcome.code == KEY_MISMATCH:
        return word
    free = isinstance(outcome, NotSent) and (outcome.opens_circuit or outcome.code in _OURS)
    if send.tries >= rules.tries and not free:
        return word
    move_to = other_way(send, outcome, moment)
    due_at = moment.now + _wait(send, outcome, rules, moment.random, moves=move_to is not None)
    return msgspec.structs.replace(word, due_at=due_at, move_to=move_to, free=free)


def other_way(send: Send, outcome: Outcome, moment: Moment) -> str | None:
    """Return the way of the next try, where this one does not work and nothing is in doubt.

    A way that sends nothing is none.
    """
    if not isinstance(outcome, NotSent) or not strains(outcome) or send.in_doubt_at is not None:
        return None
    working = (
        each.name
        for each in moment.ways
        if each.kind != LOG and not each.paused and not _rests(each, moment.now)
    )
    return next((name for name in working if name != send.transport), None)


def _rests(way: Transport, now: int) -> bool:
    return way.rests_until is not None and way.rests_until > now


def _wait(
    send: Send, outcome: Outcome, rules: SendRules, random: Callable[[], float], *, moves: bool
) -> int:
    """Return the milliseconds until the next try: half of a doubling bound, and up to all of it."""
    if isinstance(outcome, NotSent) and outcome.code in _OURS:
        return 0
    # The first change of ways costs no time; were all free, two broken ways would use up all tries.
    if moves and send.tries <= 1:
        return 0
    doublings = min(max(send.tries - 1, 0), _MOST_DOUBLINGS)
    bound: int = min(rules.longest_wait, rules.first_wait * 2**doublings)
    asked = (outcome.retry_after or 0) if isinstance(outcome, NotSent) and not moves else 0
    return max(asked, bound // 2 + int(bound / 2 * random()))
