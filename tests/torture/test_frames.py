"""The proxy sees a COMMIT however it travels, and nothing else."""

import struct

import pytest

from tests.torture.frames import CommitWatcher, Frame, FrameReader

SSL_REQUEST = struct.pack("!II", 8, 80877103)
STARTUP = struct.pack("!II", 8, 196608)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_frames_are_found_however_the_stream_is_chopped(size: int) -> None:
    frames = [Frame(b"Q", b"SELECT 1\0"), Frame(b"S", b""), Frame(b"C", b"COMMIT\0")]
    stream = b"".join(frame.encoded() for frame in frames)
    reader = FrameReader(opens_untyped=False)

    found = [
        frame
        for start in range(0, len(stream), size)
        for frame in reader.feed(stream[start : start + size])
    ]

    assert found == frames


def test_a_session_opens_untyped_and_again_after_an_encryption_request() -> None:
    query = Frame(b"Q", b"BEGIN\0")

    first, second, third = FrameReader(opens_untyped=True).feed(
        SSL_REQUEST + STARTUP + query.encoded()
    )

    assert first.asks_encryption
    assert not second.asks_encryption
    assert third == query


@pytest.mark.parametrize(
    ("tag", "committed"),
    [(b"COMMIT\0", True), (b"ROLLBACK\0", False), (b"COMMIT PREPARED\0", False)],
)
def test_only_the_tag_of_a_commit_says_committed(tag: bytes, *, committed: bool) -> None:
    assert Frame(b"C", tag).says_committed() is committed


@pytest.mark.parametrize(
    ("tag", "committed"),
    [
        (b"INSERT 0 2\0", True),
        (b"UPDATE 1\0", True),
        (b"INSERT 0 0\0", False),
        (b"SELECT 1\0", False),
    ],
)
def test_a_statement_outside_a_transaction_commits_by_itself(
    tag: bytes, *, committed: bool
) -> None:
    assert Frame(b"C", tag).says_committed(alone=True) is committed
    assert not Frame(b"C", tag).says_committed(alone=False)


def test_a_write_outside_a_transaction_is_seen_when_it_is_bound() -> None:
    watcher = CommitWatcher()
    watcher.is_commit(Frame(b"P", b"mine\0WITH x AS (SELECT 1) INSERT\0\0\0"))

    assert watcher.is_commit(Frame(b"B", b"\0mine\0"), alone=True)
    assert not watcher.is_commit(Frame(b"B", b"\0mine\0"), alone=False)


@pytest.mark.parametrize(
    ("text", "commits"),
    [
        (b"COMMIT\0", True),
        (b"  commit;\0", True),
        (b"END TRANSACTION\0", True),
        (b"COMMIT PREPARED 'x'\0", False),
        (b"SELECT 'commit'\0", False),
        (b"committed\0", False),
    ],
)
def test_a_simple_query_commits_by_its_first_word(text: bytes, *, commits: bool) -> None:
    assert CommitWatcher().is_commit(Frame(b"Q", text)) is commits


def test_a_prepared_commit_is_seen_when_it_is_bound() -> None:
    watcher = CommitWatcher()

    assert not watcher.is_commit(Frame(b"P", b"mine\0COMMIT\0\0\0"))
    assert not watcher.is_commit(Frame(b"B", b"\0other\0"))
    assert watcher.is_commit(Frame(b"B", b"\0mine\0"))


def test_a_statement_name_used_for_something_else_is_forgotten() -> None:
    watcher = CommitWatcher()
    watcher.is_commit(Frame(b"P", b"\0COMMIT\0\0\0"))
    watcher.is_commit(Frame(b"P", b"\0SELECT 1\0\0\0"))

    assert not watcher.is_commit(Frame(b"B", b"\0\0"))
