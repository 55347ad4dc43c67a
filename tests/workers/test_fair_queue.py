"""The fair queue: nobody waits for the many mails of another."""

import pytest

from oncebox.workers.mail.fair_queue import FairQueue, MailFlow


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> FairQueue[str]:
    return FairQueue(clock)


def flood(queue: FairQueue[str], *flows: MailFlow, count: int = 20) -> None:
    """Let each flow have many mails, and have used the parsers."""
    for number in range(count):
        for flow in flows:
            queue.push(flow, f"flood {number}")
    for flow in flows:
        queue.charge(flow, 0.2)


@pytest.mark.parametrize(
    ("flows", "other"),
    [
        ([MailFlow("a", "inb_1", "192.0.2.1")], MailFlow("b", "inb_2", "192.0.2.2")),
        # one address, every inbox it knows
        (
            [MailFlow("a", f"inb_{each}", "192.0.2.1") for each in range(9)],
            MailFlow("a", "inb_x", "192.0.2.2"),
        ),
        # many addresses, one inbox
        (
            [MailFlow("a", "inb_1", f"192.0.2.{each}") for each in range(9)],
            MailFlow("a", "inb_x", "198.51.100.1"),
        ),
        # the same inbox, another address
        ([MailFlow("a", "inb_1", "192.0.2.1")], MailFlow("a", "inb_1", "192.0.2.2")),
        # everything comes from one relay
        ([MailFlow("a", "inb_1", "")], MailFlow("a", "inb_2", "")),
        # the other tenant sends from everywhere to everything
        (
            [MailFlow("a", f"inb_{each}", f"192.0.2.{each}") for each in range(20)],
            MailFlow("b", "inb_x", "192.0.2.1"),
        ),
    ],
)
def test_a_mail_is_next_although_another_has_many_before_it(
    queue: FairQueue[str], flows: list[MailFlow], other: MailFlow
) -> None:
    flood(queue, *flows)
    queue.push(other, "code")

    assert queue.pop() == "code"


def test_mails_of_one_flow_keep_their_order(queue: FairQueue[str]) -> None:
    flow = MailFlow("a", "inb_1", "192.0.2.1")
    for number in range(5):
        queue.push(flow, str(number))
    first = queue.pop()
    queue.push_back(flow, first)

    assert [queue.pop() for _ in range(5)] == list("01234")
    assert not queue


def test_two_that_have_many_take_turns(queue: FairQueue[str]) -> None:
    one, two = MailFlow("a", "inb_1", "192.0.2.1"), MailFlow("a", "inb_2", "192.0.2.2")
    for _ in range(10):
        queue.push(one, "one")
        queue.push(two, "two")
    taken = []
    for _ in range(10):
        taken.append(queue.pop())
        queue.charge(one if taken[-1] == "one" else two, 0.1)

    assert taken.count("one") == 5


def test_old_use_is_forgotten(queue: FairQueue[str], clock: Clock) -> None:
    busy, idle = MailFlow("a", "inb_1", "192.0.2.1"), MailFlow("a", "inb_2", "192.0.2.2")
    for _ in range(50):
        queue.charge(busy, 1.0)
    clock.now += 300
    queue.charge(idle, 0.01)
    queue.push(idle, "idle")
    queue.push(busy, "busy")

    assert queue.pop() == "busy"


def test_what_waits_too_long_is_taken_from_every_flow(queue: FairQueue[str]) -> None:
    for number in range(3):
        for name in "ab":
            queue.push(MailFlow(name), f"{name}{number}")

    assert sorted(queue.pop_while(lambda item: item < f"{item[0]}2")) == ["a0", "a1", "b0", "b1"]
    assert sorted(queue.clear()) == ["a2", "b2"]
    assert len(queue) == 0
