"""Blocks of a stream are the same however their bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.client.core.followers import SseEvent, SseInvalid, SseParser

lines = st.text(
    st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), min_size=1, max_size=20
)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[bytes, SseEvent]:
    """Return the bytes of a block, and what they mean."""
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    id_ = draw(st.none() | lines.filter(lambda text: not text.startswith(" ")))
    data = draw(st.lists(lines.filter(lambda text: not text.startswith(" ")), max_size=3))
    retry = draw(st.none() | st.integers(0, 100_000))
    text = [": a comment", *(f"data: {each}" for each in data)]
    if id_ is not None:
        text.insert(draw(st.integers(0, len(text))), f"id: {id_}")
    if retry is not None:
        text.append(f"retry:{retry}")
    written = end.join((*text, "", "")).encode()
    return written, SseEvent(id_, "\n".join(data).encode(), retry)


@given(st.lists(blocks(), max_size=6), st.data())
def test_blocks_are_the_same_however_their_bytes_are_cut(
    wanted: list[tuple[bytes, SseEvent]], data: st.DataObject
) -> None:
    whole = b"".join(written for written, _ in wanted)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    reader = SseParser()
    found: list[SseEvent] = []
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += reader.feed(whole[begin:end])
    found += reader.feed(b"\n")  # a last carriage return may have waited for its other half

    assert found == [block for _, block in wanted]


def test_a_block_that_never_ends_is_given_up() -> None:
    reader = SseParser()

    for _ in range(16):
        reader.feed(b"x" * 1024 * 1024)

    with pytest.raises(SseInvalid):
        reader.feed(b"x")


def test_what_is_no_field_of_ours_is_left_out() -> None:
    (block,) = SseParser().feed(b"event: a\nid: b\0c\nretry: soon\nother: x\nnothing\ndata\n\n")

    assert block == SseEvent(None, b"", None)
