"""Claiming: a wish for work that waits, whatever happens to its connections meanwhile."""

from collections.abc import Sequence

import msgspec

from oncebox import clock, ids
from oncebox.client.call import Allowance, Call, Pause, Plan, ask, checked_key, path
from oncebox.client.exchange import backoff, is_unclear, may_pass
from oncebox.errors import OnceboxError
from oncebox.wire import pull as wire

#: seconds; many proxies cut what is silent for a minute
_LONGEST_POLL = 45.0
#: a poll cut this short is not worth a long one: the service is asked and left at once
_SHORTEST_POLL = 2.0


def new_request_key() -> str:
    """Return a key for one claim."""
    return ids.new("clm")


def claim(
    sources: Sequence[str] | str | None = None,
    *,
    limit: int = 1,
    wait: float = 0,
    lease: float | None = None,
    worker: str = "pull",
    request_key: str | None = None,
) -> Plan[wire.Claimed]:
    """Claim work of some sources, or of all that the key may work on.

    Waits up to ``wait`` seconds for it, in long polls; where those are cut, in short ones. The
    same ``request_key`` is answered with the same claims, so that none is lost with its answer.

    Raises: RequestKeyReused, NotFound where a source is not there to be pulled.
    """
    wish = wire.Claim(
        request_key=checked_key(request_key) or new_request_key(),
        sources=_names(sources),
        worker=worker,
        limit=limit,
        lease=lease,
    )
    return _wait_for(wish, wait)


def _wait_for(wish: wire.Claim, wait: float) -> Plan[wire.Claimed]:
    allowed: float = yield Allowance()
    waited_until = clock.steady() + wait
    until = waited_until + allowed
    longest, trials = _LONGEST_POLL, 0
    while True:
        began = clock.steady()
        poll = max(0.0, min(waited_until - began, longest))
        try:
            claimed = yield from ask(_poll(wish, poll, min(allowed / 2, until - began - poll)))
        except OnceboxError as error:
            pause = backoff(trials + 1) + (error.retry_after or 0)
            if not may_pass(error) or clock.steady() + pause >= until:
                raise
            if is_unclear(error):
                longest = _shorter(longest)
        else:
            left = waited_until - clock.steady()
            if claimed.deliveries or left <= 0:
                return claimed
            # An empty answer before its time: the service is stopping, or it was not to wait.
            early = clock.steady() - began < max(poll, 1) / 2
            pause = min(left, backoff(trials + 1)) if early else 0
        trials += 1
        yield Pause(pause)


def _poll(wish: wire.Claim, wait: float, within: float) -> Call[wire.Claimed]:
    """Return one claim; a lost answer is not asked for again in the same words."""
    return Call(
        method="POST",
        path=path("deliveries", "claim"),
        answer=wire.Claimed,
        body=msgspec.structs.replace(wish, wait=wait),
        repeatable=True,
        alone=True,
        wait=wait,
        within=within,
    )


def _shorter(poll: float) -> float:
    return poll / 2 if poll / 2 >= _SHORTEST_POLL else 0.0


def _names(sources: Sequence[str] | str | None) -> list[str] | None:
    if sources is None:
        return None
    return [sources] if isinstance(sources, str) else list(sources)
