"""The state machine: Hypothesis draws who acts and how; after each act everything is checked."""

from collections.abc import Callable
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.statemachine.driver import Driver
from tests.support.clerk import Clerk

Act = Callable[[Driver, int, int], None]

#: every act, by how often it should come
ACTS: dict[Act, int] = {
    Driver.arrive: 6,
    Driver.arrive_in_order: 5,
    Driver.arrive_unsigned: 2,
    Driver.arrive_late: 1,
    Driver.arrive_in_one_request: 2,
    Driver.redeliver: 3,
    Driver.claim: 3,
    Driver.work: 6,
    Driver.take_over: 1,
    Driver.freeze: 3,
    Driver.bury: 2,
    Driver.crash: 1,
    Driver.renew: 2,
    Driver.settle: 4,
    Driver.settle_too_late: 2,
    Driver.settle_together: 1,
    Driver.begin: 3,
    Driver.repeat: 2,
    Driver.finish: 3,
    Driver.hold: 1,
    Driver.release: 3,
    Driver.drop: 1,
    Driver.replay: 2,
    Driver.jump: 3,
}
_DECK = [act for act, share in ACTS.items() for _ in range(share)]
_some = st.integers(0, 1_000)


class LedgerMachine(RuleBasedStateMachine):
    """One rule with all acts: Hypothesis leaves out rules at random, and an act needs others."""

    clerk: ClassVar[Clerk]

    def __init__(self) -> None:
        """Begin with an empty ledger."""
        super().__init__()
        self.driver = Driver(self.clerk)

    @rule(act=st.sampled_from(_DECK), who=_some, more=_some)
    def act(self, act: Act, who: int, more: int) -> None:
        """Somebody does something."""
        act(self.driver, who, more)

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        """The ledger agrees with the model, and keeps what it promises."""
        self.driver.check()

    def teardown(self) -> None:
        """Nothing is stuck: all of it can be brought to an end."""
        self.driver.finish_everything()
