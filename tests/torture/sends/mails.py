"""What the torture sends: mails under keys of their own, large and small."""

from oncebox.model.sends.email import Email

_LINE = "This line is one of many, and says nothing.\n"
#: Lines of a large mail: more than is written at once.
_LARGE = 4_000


def keys(trial: str, count: int) -> list[str]:
    """Return the keys of one trial; no two trials share one."""
    return [f"{trial}-{number}" for number in range(count)]


def mail(key: str) -> Email:
    """Return the mail of a key; every fourth is large."""
    lines = _LARGE if sum(key.encode()) % 4 == 0 else 1
    return Email(
        sender="shop@example.com",
        to=f"{key}@example.org",
        subject=key,
        text=_LINE * lines,
    )
