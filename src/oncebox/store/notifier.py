"""The connection by which a process tells the others that something happened."""

from oncebox.store.postgres_session import connect


class Notifier:
    """Sends notifications; they are hints, so nobody waits for a disk because of them."""

    def __init__(self, url: str) -> None:
        """Connect.

        Raises: StoreError of the kind that names the trouble.
        """
        self._connection = connect(url)
        self._connection.execute("SET synchronous_commit = off")

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self._connection.closed

    def notify(self, channel: str) -> None:
        """Tell every listening process that something happened on a channel."""
        self._connection.execute("SELECT pg_notify('oncebox', %s)", (channel,))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
