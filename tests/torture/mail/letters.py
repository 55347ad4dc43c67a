"""What the torture sends: mails for one or two inboxes, large and small, copies among them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

#: Mails from so many bytes on go through a file.
SPOOL_FROM = 4_096
_LARGE = 2 * SPOOL_FROM
_DOMAIN = "sender.example"


@dataclass(frozen=True, slots=True)
class Letter:
    """One mail, however often it is sent."""

    key: str
    #: Addresses of inboxes.
    recipients: tuple[str, ...]
    #: How often a nervous sender sends the very same bytes.
    copies: int
    #: Over how many relays it comes, each of which adds a line of its own.
    relays: int
    size: int
    #: Whether it has a Message-ID; without, the date tells it from others.
    named: bool

    @property
    def sender(self) -> str:
        """The address in From, by which a message is known again."""
        return address_of(self.key)

    def data(self, relay: int) -> bytes:
        """Return its bytes as they come over one of its relays."""
        trace = [f"Received: by relay{relay}.example; Mon, 16 Nov 2026 08:00:0{relay} +0000"]
        name = [f"Message-ID: <{self.key}@{_DOMAIN}>"] if self.named else []
        fields = [
            *(trace if relay else []),
            f"From: {self.sender}",
            f"To: {', '.join(self.recipients)}",
            f"Subject: {self.key}",
            "Date: Mon, 16 Nov 2026 08:00:00 +0000",
            *name,
        ]
        line = f"This is {self.key}.\r\n"
        return ("\r\n".join((*fields, "", "")) + line * (self.size // len(line) + 1)).encode()


def address_of(key: str) -> str:
    """Return the address in From of a letter."""
    return f"{key}@{_DOMAIN}"


def letters(seed: str, count: int, inboxes: Sequence[str]) -> list[Letter]:
    """Draw letters; the same seed draws the same ones."""
    dice = random.Random(f"letters/{seed}")
    return [_draw(dice, f"{seed}-{number}", inboxes) for number in range(count)]


def parcels(drawn: Sequence[Letter]) -> list[tuple[Letter, int]]:
    """Return everything that is to be sent, shuffled: each letter with one of its relays."""
    every = [
        (one, relay) for one in drawn for relay in range(one.relays) for _ in range(one.copies)
    ]
    random.Random(len(every)).shuffle(every)
    return every


def _draw(dice: random.Random, key: str, inboxes: Sequence[str]) -> Letter:
    return Letter(
        key=key,
        recipients=tuple(dice.sample(inboxes, dice.choice((1, 1, 2)))),
        copies=dice.choice((1, 1, 1, 2)),
        relays=dice.choice((1, 1, 2)),
        size=_LARGE if dice.random() < 0.25 else dice.randrange(100, 1_000),
        named=dice.random() < 0.8,
    )
