"""Positions in APIs that know only timestamps: no mail is lost, none is given twice."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from oncebox.mailboxes import overlap
from oncebox.mailboxes.overlap import MAX_SEEN, Overlap, finish, take

WINDOW = 600_000
BEGIN = 1_900_000_000_000


@dataclass
class Provider:
    """Mails that become visible late, with the time of one of several clocks."""

    #: id, time, when it is visible
    mails: list[tuple[str, int, int]] = field(default_factory=list)

    def visible(self, now: int, since: int) -> list[tuple[str, int]]:
        return [(id_, at) for id_, at, from_ in self.mails if from_ <= now and at >= since]


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 900_000),  # after the one before
        st.integers(-200_000, 200_000),  # the clock that gave its time
        st.integers(0, 200_000),  # how late it appears
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(
    arrivals=ARRIVALS,
    polls=st.lists(st.integers(1, 2_000_000), min_size=1, max_size=15),
    size=st.integers(1, 5),
    newest_first=st.booleans(),
)
def test_nothing_is_lost_and_nothing_is_given_twice(
    arrivals: list[tuple[int, int, int]], polls: list[int], size: int, newest_first: bool
) -> None:
    provider, now = Provider(), BEGIN
    for number, (after, skew, late) in enumerate(arrivals):
        now += after
        provider.mails.append((f"m{number}", now + skew, now + late))
    end = now + 10_000_000
    position, given_, now = Overlap(since=BEGIN - WINDOW), [], BEGIN
    for wait in [*polls, end - BEGIN, WINDOW * 2]:
        now += wait
        listed = sorted(
            provider.visible(now, position.since), key=lambda each: each[1], reverse=newest_first
        )
        for begin in range(0, len(listed), size):
            fresh, position = take(position, listed[begin : begin + size], now, WINDOW)
            given_ += fresh
        position = finish(position, WINDOW)
        assert len(position.seen) <= MAX_SEEN

    assert len(given_) == len(set(given_))
    assert set(given_) == {id_ for id_, _, _ in provider.mails}


@given(at=st.integers(BEGIN, BEGIN * 2), number=st.integers(1, 5))
def test_a_mail_from_the_future_hides_nothing(at: int, number: int) -> None:
    _, position = take(Overlap(), [("future", at)], BEGIN, WINDOW)
    position = finish(position, WINDOW)
    fresh, _ = take(position, [(f"m{each}", BEGIN + each) for each in range(number)], BEGIN, WINDOW)

    assert len(fresh) == number


@settings(deadline=None)
@given(extra=st.integers(0, 50), tie=st.booleans())
def test_a_position_has_an_end_however_many_mails_are_in_the_window(extra: int, tie: bool) -> None:
    count = MAX_SEEN + extra
    listed = [(f"m{number}", BEGIN + (0 if tie else number)) for number in range(count)]
    position, given_ = Overlap(), []
    for _ in range(3):
        current = [each for each in listed if each[1] >= position.since]
        for begin in range(0, len(current), 100):
            fresh, position = take(position, current[begin : begin + 100], BEGIN * 2, WINDOW)
            given_ += fresh
        position = finish(position, WINDOW)
        assert len(position.seen) <= MAX_SEEN

    assert len(given_) == len(set(given_)) == count


def test_a_listing_that_never_ends_is_remembered_in_part() -> None:
    position = Overlap()
    for page in range(50):
        mails = [(f"{page}-{number}", BEGIN + page) for number in range(100)]
        _, position = take(position, mails, BEGIN * 2, WINDOW)

    assert len(position.found) <= MAX_SEEN + overlap._MAX_LAST_LISTED
    again, _ = take(position, mails, BEGIN * 2, WINDOW)
    assert again == []
