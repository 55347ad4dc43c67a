"""What the torture sends: deliveries of several kinds, repeats among them, drawn by seed."""

import random
from dataclasses import dataclass
from enum import StrEnum

#: The source whose deliveries are tried as often as the settings say.
STURDY = "shop"
#: Sources whose deliveries are given up after one try.
FRAIL = ("frail-a", "frail-b")
#: How many lanes the deliveries with an order key share.
LANES = 3


class Kind(StrEnum):
    """How a delivery's handler touches the world; the type of the delivery."""

    #: Calls with a key that the world honours: repeats bring the same key.
    IDEMPOTENT = "idempotent"
    #: Calls a world without keys: never twice, held in doubt.
    ONCE = "once"
    #: Calls, and in doubt asks the world whether it happened.
    VERIFIED = "verified"
    #: Writes into our own database, in one commit with the journal.
    OWN = "own"
    #: Calls as ``once`` does, then fails its first try.
    FLAKY = "flaky"
    #: Fails for good, without an effect.
    FATAL = "fatal"


#: Kinds that leave a line in the world when they are done.
WORLDLY = frozenset({Kind.IDEMPOTENT, Kind.ONCE, Kind.VERIFIED, Kind.FLAKY})
#: Kinds whose call may reach the world once at most.
AT_MOST_ONCE = frozenset({Kind.ONCE, Kind.VERIFIED, Kind.FLAKY})
#: Kinds that wait for a person when a call was cut off.
MAY_BE_HELD = frozenset({Kind.ONCE, Kind.FLAKY})

#: What is drawn from, where nobody says otherwise.
MIX = (
    *(Kind.IDEMPOTENT, Kind.IDEMPOTENT, Kind.IDEMPOTENT),
    *(Kind.ONCE, Kind.ONCE, Kind.ONCE),
    *(Kind.OWN, Kind.OWN),
    *(Kind.VERIFIED, Kind.FLAKY, Kind.FATAL),
)


@dataclass(frozen=True, slots=True)
class Errand:
    """One thing to be delivered, perhaps several times."""

    source: str
    key: str
    kind: Kind
    order_key: str | None
    #: How often the client sends it.
    copies: int
    body: bytes


def errands(
    seed: str, count: int, *, size: int = 100, kinds: tuple[Kind, ...] = MIX, frail: int = 0
) -> list[Errand]:
    """Draw errands; the same seed draws the same ones, in whichever process."""
    dice = random.Random(f"errands/{seed}")
    drawn = [_draw(dice, f"{seed}-{number}", kinds, size) for number in range(count)]
    return drawn + [_frail(f"{seed}-frail-{number}", number) for number in range(frail)]


def _draw(dice: random.Random, key: str, kinds: tuple[Kind, ...], size: int) -> Errand:
    kind = dice.choice(kinds)
    lane = f"lane-{dice.randrange(LANES)}" if dice.random() < 0.4 else None
    copies = dice.choice((1, 1, 1, 2, 3))
    return Errand(STURDY, key, kind, lane, copies, _body(key, dice.randrange(size, 2 * size)))


def _frail(key: str, number: int) -> Errand:
    return Errand(FRAIL[number % len(FRAIL)], key, Kind.IDEMPOTENT, None, 1, _body(key, 100))


def _body(key: str, size: int) -> bytes:
    """Return a body that differs from every other and is the same in every copy."""
    return (f"{key} " * (size // (len(key) + 1) + 1)).encode()
