"""Policies: ask a program's policy about a delivery, and settle what it refuses or fails on."""

import inspect
from collections.abc import Callable
from typing import Any

from oncebox.core.logging import Log, loggable_key
from oncebox.core.metrics import Telemetry
from oncebox.errors import EffectMisused, EffectOutcomeUnknown, LeaseLost
from oncebox.ledger.deliveries import settlements
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import (
    Allow,
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    Drop,
    Hold,
    PolicyDecision,
    Settlement,
)
from oncebox.model.deliveries.retry import (
    RetryRules,
    failure_from_error,
    hold_settlement,
    one_line,
    settle_failure,
)
from oncebox.workers.deliveries.once import run_in_thread

PolicyFunction = Callable[..., Any]


class PolicyCheck:
    """Asks the policies of a program, once per delivery."""

    def __init__(
        self,
        find_policy: Callable[[str], PolicyFunction | None],
        ledger: Ledger,
        telemetry: Telemetry,
    ) -> None:
        self._find_policy = find_policy
        self._ledger = ledger.retrying()
        self._telemetry = telemetry

    async def refusal(self, delivery: Delivery) -> Settlement | None:
        """Ask the policy, whatever the type; None: the delivery may run, and that is on disk.

        Raises: LeaseLost, and every error of the policy.
        """
        policy = self._find_policy(delivery.source)
        if policy is None or delivery.policy is not None:
            return None
        decision = await _ask_policy(policy, delivery)
        if isinstance(decision, Hold):  # its reason may quote the sender
            self._telemetry.log.warning(
                "delivery_held",
                delivery=delivery.id,
                source=delivery.source,
                key=loggable_key(delivery.key),
                reason="policy",
            )
        if not isinstance(decision, Allow):
            return _policy_settlement(delivery, decision)
        if not await self._ledger.submit(settlements.allow, delivery):
            raise LeaseLost("the lease was lost while the policy was asked")
        return None


def settle_error(
    delivery: Delivery,
    error: BaseException,
    rules: RetryRules,
    *,
    now: int,
    random: Callable[[], float],
    log: Log,
) -> Settlement:
    """Return the settlement of a try that raised: repeated later, held or given up; log it."""
    if isinstance(error, EffectOutcomeUnknown):
        settlement = hold_settlement(delivery, str(error))
    else:
        failure = failure_from_error(error)
        settlement = settle_failure(delivery, failure, rules, now=now, random=random)
    return settlements.with_traceback(log, settlement, error)


async def _ask_policy(policy: PolicyFunction, delivery: Delivery) -> PolicyDecision:
    if inspect.iscoroutinefunction(policy):
        decision = await policy(delivery)
    else:
        decision = await run_in_thread(lambda: policy(delivery))
        decision = await decision if inspect.isawaitable(decision) else decision
    if not isinstance(decision, (Allow, Hold, Drop)):
        raise EffectMisused(
            f"the policy of {delivery.source!r} must return Allow(), Hold(…) or Drop(…)"
        )
    return decision


def _policy_settlement(delivery: Delivery, decision: Hold | Drop) -> Settlement:
    if isinstance(decision, Hold):
        return hold_settlement(delivery, f"policy: {decision.reason}")
    return Settlement(
        delivery=delivery,
        state=DeliveryState.DONE,
        outcome=DeliveryOutcome.DROPPED,
        error=one_line(f"policy: {decision.reason}"),
    )
