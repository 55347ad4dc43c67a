"""Actors by hand: actions and resends of attempts, in time the test owns."""

import itertools
from typing import Any

from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.attempts import actions, attempts
from oncebox.ledger.attempts.actions import ActionRef, ActionReport, BeginAction
from oncebox.model.attempts import (
    Action,
    ActionState,
    BeginActionResult,
    ResendGrant,
    request_fingerprint,
)
from oncebox.model.deliveries.effects import Safety
from tests.support.clerk import LEASE, TENANT, Clerk

DAY = 86_400_000
ATTEMPT = "signup-42"
NAME = "verify"

_numbers = itertools.count()


class Actor:
    """One agent, or an operator, at the clerk's time."""

    def __init__(self, clerk: Clerk, key: str = "key_1", *, sees_all: bool = False) -> None:
        """Ask with this key."""
        self.clerk = clerk
        self.asker = Requester(tenant=TENANT, key=key, sees_all=sees_all)

    def wish(
        self,
        safe: Safety = Safety.ONCE,
        *,
        attempt: str = ATTEMPT,
        name: str = NAME,
        request: str | None = None,
        lease: int = LEASE,
        window: int = DAY,
    ) -> BeginAction:
        """Return a wish to begin; a new request unless one is named."""
        request = request or f"request-{next(_numbers)}"
        return BeginAction(
            ref=ActionRef(self.asker, attempt, name),
            safe=safe,
            fingerprint=request_fingerprint(self.asker.key or "", request),
            lease=lease,
            window=window,
        )

    def word(self, fence: int = 1, **more: Any) -> ActionReport:
        """Return a word on an action."""
        ref = ActionRef(self.asker, more.pop("attempt", ATTEMPT), more.pop("name", NAME))
        return ActionReport(ref=ref, fence=fence, **more)

    def ask(self, safe: Safety = Safety.ONCE, **more: Any) -> BeginActionResult | None:
        """Want to begin; None if the attempt is somebody else's."""
        return self.clerk.run(actions.begin, [self.wish(safe, **more)], self.clerk.now)[0]

    def begin(self, safe: Safety = Safety.ONCE, **more: Any) -> BeginActionResult:
        """Want to begin."""
        begun = self.ask(safe, **more)
        assert begun is not None
        return begun

    def done(self, fence: int = 1, result: bytes | None = b"1", **more: Any) -> Action | None:
        """Say that it happened."""
        return self.clerk.run(
            actions.finish, [self.word(fence, result=result, **more)], self.clerk.now
        )[0]

    def not_done(self, fence: int = 1, **more: Any) -> bool:
        """Say that it did not happen; say whether that counts."""
        word = self.word(fence, **more)
        action = self.clerk.run(actions.finish_not_done, [word], self.clerk.now)[0]
        return action is not None and actions.is_accepted(word, action)

    def heartbeat(self, fence: int = 1, lease: int = LEASE) -> bool:
        """Keep the action; say whether it is still held."""
        word = self.word(fence, until=self.clerk.now + lease)
        action = self.clerk.run(actions.renew, [word], self.clerk.now)[0]
        return action is not None and actions.is_held(word, action)

    def resend(self, request: str, attempt: str = ATTEMPT) -> ResendGrant:
        """Want one more mail."""
        mark = request_fingerprint(self.asker.key or "", request)
        return self.clerk.run(attempts.grant_resend, self.asker, attempt, mark, self.clerk.now)

    def state(self) -> ActionState:
        """Return where the action stands."""
        (action,) = self.clerk.run(actions.newest, TENANT, attempt_id=ATTEMPT)
        return action.state

    def lose(self) -> None:
        """Let the lease run out."""
        self.clerk.now += LEASE
