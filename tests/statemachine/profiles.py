"""What arrives in the state machine: a few keys of every kind there is."""

from oncebox.model.deliveries.delivery import LaneRules
from tests.statemachine.model import Profile
from tests.support.clerk import MINUTE

_SKIP = LaneRules(stale="skip", gap_wait=2 * MINUTE)
_RUN = LaneRules(stale="run")
_AFTER = LaneRules(after={"completed": "started", "noted": "completed"}, after_wait=2 * MINUTE)

#: two keys in each of two lanes, two in none
PLAIN = [Profile(f"key-{number}", lane=(None, "a", "b")[number % 3]) for number in range(6)]
#: lanes that run by number; one also has something without a number
NUMBERED = [
    *(Profile(f"skip-{n}", lane="numbers", rules=_SKIP, sequence=n) for n in range(1, 6)),
    Profile("skip-plain", lane="numbers"),
    *(Profile(f"run-{n}", lane="versions", rules=_RUN, sequence=n) for n in range(1, 4)),
]
#: a lane in which one type waits for another, and a third for that
TYPED = [
    Profile(type_, lane="jobs", type=type_, rules=_AFTER)
    for type_ in ("completed", "started", "noted", "other")
]
#: keys that nobody signed, over the same few bodies
UNSIGNED = [
    Profile("unsigned-1", unsigned=True),
    Profile("unsigned-2", unsigned=True, on_replay="run"),
    Profile("unsigned-3", unsigned=True, on_replay="drop"),
    Profile("unsigned-4", unsigned=True, on_replay="run", lane="a"),
    Profile("unsigned-5", unsigned=True, on_replay="run", verdict="late", hold_reason="late"),
]
#: signed outside the window
LATE = [
    Profile("late-1", verdict="late", hold_reason="late"),
    Profile("late-2", verdict="late"),
    Profile("late-3", verdict="late", hold_reason="late", lane="b"),
]
EVERYTHING = [*PLAIN, *NUMBERED, *TYPED, *UNSIGNED, *LATE]
RULED_LANES = {profile.lane for profile in EVERYTHING if profile.rules is not None}
