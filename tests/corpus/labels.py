"""Labels: what is in each mail of the corpus, and what must not be taken from it."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import msgspec


class Label(msgspec.Struct, frozen=True):
    """What a person would take from a mail."""

    file: str
    lang: str
    kind: str
    otp: str | None = None
    otp_accept: tuple[str, ...] | None = None
    link: str | None = None
    link_kind: str | None = None
    accept_links: tuple[str, ...] | None = None
    traps: tuple[str, ...] = ()
    ambiguous: bool = False

    @property
    def product(self) -> str:
        """Whose mail it is."""
        return self.file.partition("__")[0]

    @property
    def code(self) -> frozenset[str]:
        """The forms of the code that are right; none if there is no code."""
        return frozenset(map(canonical, self.otp_accept or ())) | (
            {canonical(self.otp)} if self.otp else frozenset()
        )

    @property
    def links(self) -> frozenset[str]:
        """The links that are right; none if there is none."""
        return frozenset(self.accept_links or ()) | ({self.link} if self.link else frozenset())


_LABEL = msgspec.json.Decoder(Label)


def read(folder: Path) -> Iterator[Label]:
    """Yield the labels of a corpus."""
    with (folder / "labels.jsonl").open("rb") as lines:
        for line in lines:
            if line.strip():
                yield _LABEL.decode(line)


def canonical(code: str) -> str:
    """Return a code with the letters and digits that a keyboard has."""
    return "".join(map(_digit, unicodedata.normalize("NFKC", code)))


def _digit(character: str) -> str:
    number = unicodedata.decimal(character, None)
    return character if number is None else str(number)
