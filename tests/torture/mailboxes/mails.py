"""What the torture of mailboxes sends: mails with a code each, by one to three channels."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_DOMAIN = "sender.example"


class Channel(StrEnum):
    """A way on which a mail arrives; each adds a line of its own to the header."""

    SMTP = "smtp"
    WEBHOOK = "webhook"
    MAILBOX = "mailbox"


#: each mailbox, and which inbox has all its mail; None: by recipient
MAILBOXES: dict[str, int | None] = {"ann": 0, "bob": None, "scripted": None, "since": 1}


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail, however often it arrives."""

    key: str
    #: addresses of inboxes
    recipients: tuple[str, ...]
    #: how it arrives, in this order
    channels: tuple[Channel, ...]
    #: the mailbox that has it, if one of its channels is a mailbox
    mailbox: str
    code: str
    #: whether it has a Message-ID
    named: bool

    @property
    def sender(self) -> str:
        """The address in From, by which its messages are recognised."""
        return f"{self.key}@{_DOMAIN}"

    def data(self, relay: int) -> bytes:
        """Return its bytes as they come over a relay."""
        name = [f"Message-ID: <{self.key}@{_DOMAIN}>"] if self.named else []
        fields = [
            f"Received: by relay{relay}.example; Mon, 16 Nov 2026 08:00:0{relay} +0000",
            f"From: {self.sender}",
            f"To: {', '.join(self.recipients)}",
            f"Subject: Your code for {self.key}",
            "Date: Mon, 16 Nov 2026 08:00:00 +0000",
            *name,
        ]
        text = f"Your verification code is {self.code}.\r\n\r\nThis is {self.key}.\r\n"
        return ("\r\n".join((*fields, "", "")) + text).encode()

    def by(self, channel: Channel) -> bytes:
        """Return its bytes as they come by a channel."""
        return self.data(list(Channel).index(channel))


def key_in(raw: bytes) -> str:
    """Return the key of a mail from its bytes."""
    return raw.partition(b"From: ")[2].partition(b"@")[0].decode()


def draw(seed: str, count: int, inboxes: Sequence[str]) -> list[Mail]:
    """Draw mails; the same seed draws the same ones, and no code is drawn twice."""
    dice = random.Random(f"mailboxes/{seed}")
    return [_draw(dice, f"{seed}-{number}", number, inboxes) for number in range(count)]


def _draw(dice: random.Random, key: str, number: int, inboxes: Sequence[str]) -> Mail:
    channels = tuple(dice.sample(list(Channel), dice.randint(1, 3)))
    mailbox = dice.choice(list(MAILBOXES)) if Channel.MAILBOX in channels else ""
    bound = MAILBOXES.get(mailbox)
    some = dice.sample(inboxes, dice.choice((1, 1, 1, 2)))
    return Mail(
        key=key,
        recipients=tuple(some) if bound is None else (inboxes[bound],),
        channels=channels,
        mailbox=mailbox,
        # 7919 is prime, so that no two numbers below 900,000 give the same code.
        code=f"{100_000 + number * 7_919 % 900_000}",
        named=dice.random() < 0.8,
    )


def by_channel(mails: Iterable[Mail], channel: Channel, dice: random.Random) -> list[Mail]:
    """Return the mails that arrive by a channel, in the order in which they do."""
    chosen = [each for each in mails if channel in each.channels]
    dice.shuffle(chosen)
    return chosen
