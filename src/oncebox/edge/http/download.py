"""Downloads: a stranger's bytes, handed out so that no browser opens them."""

from typing import NamedTuple


class Download(NamedTuple):
    """Bytes to be saved; the name is ours, never the sender's."""

    body: bytes
    name: str

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What keeps a browser from showing, running or guessing what it is."""
        return (
            ("content-disposition", f'attachment; filename="{self.name}"'),
            ("content-security-policy", "sandbox; default-src 'none'"),
        )
