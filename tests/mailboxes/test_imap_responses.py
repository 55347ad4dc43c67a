"""Responses are cut from bytes the same way however these arrive, and within limits."""

from contextlib import suppress
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mailboxes.imap_responses import (
    MAX_TEXT_BYTES,
    AnswerInvalid,
    AnswerTooLarge,
    ImapResponse,
    ImapResponseParser,
    decode_folder,
    encode_folder,
    fetch_items,
    parse_date,
    parse_response,
    parse_values,
    search_date,
    search_uids,
    uid_set,
)

STREAM = (
    b"* OK [CAPABILITY IMAP4rev1 IDLE] ready {5}\r\n"
    b"* 3 EXISTS\r\n"
    b"* SEARCH 1 2 3\r\n"
    b'* LIST (\\HasNoChildren) "/" "a \\"quoted\\" name"\r\n'
    b'* 1 FETCH (UID 7 FLAGS (\\Seen) INTERNALDATE "17-Nov-2026 12:00:00 +0000" BODY[] {11}\r\n'
    b"a)\r\n{3}\r\nb\n X-NEXT NIL)\r\n"
    b"* 2 FETCH (BODY[] ~{2}\r\n\r\n UID 8)\r\n"
    b"+ idling\r\n"
    b"A1 OK [READ-ONLY] done\r\n"
)


def responses(*pieces: bytes) -> list[ImapResponse]:
    parser, found = ImapResponseParser(), []
    for piece in pieces:
        parser.feed(piece)
        while (response := parser.next_response()) is not None:
            found.append(response)
    assert parser.is_empty
    assert parser.consumed == sum(map(len, pieces))
    return found


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_any_split_of_the_bytes_gives_the_same_responses(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(ends)]

    assert responses(*pieces) == responses(STREAM)


def test_every_part_of_a_response_is_told_apart() -> None:
    greeting, exists, _, listed, first, second, go, done = responses(STREAM)

    assert (greeting.kind, greeting.code, greeting.code_text) == (
        "OK", "CAPABILITY", b"IMAP4rev1 IDLE",
    )  # fmt: skip
    assert (exists.kind, exists.number) == ("EXISTS", 3)
    assert listed.values() == [[b"\\HasNoChildren"], b"/", b'a "quoted" name']
    assert fetch_items(first) == {
        "UID": b"7", "FLAGS": [b"\\Seen"], "INTERNALDATE": b"17-Nov-2026 12:00:00 +0000",
        "BODY[]": b"a)\r\n{3}\r\nb\n", "X-NEXT": None,
    }  # fmt: skip
    assert fetch_items(second) == {"BODY[]": b"\r\n", "UID": b"8"}
    assert go.tag == b"+"
    assert (done.tag, done.kind, done.code) == (b"A1", "OK", "READ-ONLY")


@given(st.binary(max_size=300), st.integers(0, 300))
def test_garbage_is_refused_or_waited_for_and_never_a_crash(data: bytes, cut: int) -> None:
    parser = ImapResponseParser()
    try:
        for piece in (data[:cut], data[cut:], b"\r\n"):
            parser.feed(piece)
            while (response := parser.next_response()) is not None:
                if response.kind == "FETCH":
                    fetch_items(response)
                response.values()
    except (AnswerInvalid, AnswerTooLarge):
        pass


@given(st.lists(st.one_of(st.text('()" \\{}aN', max_size=20), st.binary(max_size=9)), max_size=8))
def test_values_are_parsed_or_refused(parts: list[str | bytes]) -> None:
    given = [each.encode() if isinstance(each, str) else each for each in parts] or [b""]
    with suppress(AnswerInvalid):
        parse_values(given)


@pytest.mark.parametrize(
    "line",
    [
        b"<html><body>503</body></html>", b"HTTP/1.1 400 Bad Request", b"", b"*", b"* ",
        b"A1 FETCH x",
        b"* 99999999999 EXISTS", b"\x16\x03\x01", b"220 mail.example.com ESMTP",
    ],
)  # fmt: skip
def test_what_is_no_imap_is_refused(line: bytes) -> None:
    with pytest.raises(AnswerInvalid):
        parse_response([line])


def test_a_line_without_end_is_refused_at_its_limit() -> None:
    parser = ImapResponseParser()
    parser.feed(b"* SEARCH " + b"1 " * (MAX_TEXT_BYTES // 2 - 100))
    assert parser.next_response() is None

    parser.feed(b"1 " * 200)
    with pytest.raises(AnswerTooLarge):
        parser.next_response()


@pytest.mark.parametrize("size", [b"65537", b"2147483648", b"99999999999999999999"])
def test_a_literal_above_its_limit_is_refused_before_it_arrives(size: bytes) -> None:
    parser = ImapResponseParser()
    parser.feed(b"* 1 FETCH (BODY[] {" + size + b"}\r\n")

    with pytest.raises(AnswerTooLarge):
        parser.next_response()


def test_many_small_literals_are_one_large_answer() -> None:
    parser = ImapResponseParser()
    parser.feed(b"* 1 FETCH (" + b"X {1}\r\na " * 1000 + b")\r\n")

    with pytest.raises(AnswerTooLarge):
        parser.next_response()


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(AnswerInvalid):
        parse_values([b"(" * 100 + b")" * 100])


def test_a_search_is_read_within_bounds() -> None:
    plain = parse_response([b"* SEARCH 2 4 9 (MODSEQ 917162500)"])
    extended = parse_response([b'* ESEARCH (TAG "A1") UID ALL 2:4,9,1:4294967295'])

    assert list(search_uids(plain, 3, 8)) == [4]
    assert list(search_uids(extended, 3, 5)) == [3, 4, 3, 4, 5]
    assert len(list(islice(search_uids(extended, 1, 2**32 - 1), 10))) == 10


@given(st.sets(st.integers(1, 60)))
def test_a_set_of_uids_names_each_once(uids: set[int]) -> None:
    text = uid_set(sorted(uids))
    found = parse_response([b"* ESEARCH ALL " + text]) if uids else None

    assert (list(search_uids(found, 1, 100)) if found else []) == sorted(uids)


@given(st.text(min_size=1, max_size=40).filter(str.isprintable))
def test_a_folder_name_survives_its_encoding(name: str) -> None:
    encoded = encode_folder(name)
    (value,) = parse_values([encoded])

    assert encoded.isascii()
    assert isinstance(value, bytes)
    assert decode_folder(value) == name


def test_folder_names_are_encoded_as_the_standard_says() -> None:
    assert encode_folder("~peter/mail/台北/日本語") == b'"~peter/mail/&U,BTFw-/&ZeVnLIqe-"'
    assert encode_folder('A & "B"') == b'"A &- \\"B\\""'


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (b"17-Nov-2026 12:00:00 +0000", 1794916800000), (b" 1-Jan-1970 01:00:00 +0100", 0),
        (b"17-Nov-2026 12:00:60 +0000", 1794916859000), (b"31-Feb-2026 12:00:00 +0000", None),
        (b"17-Foo-2026 12:00:00 +0000", None), (b"", None), (None, None),
        (b"17-Nov-2026 12:00:00 +9999", None), (b"01-Jan-0001 00:00:00 +2300", None),
    ],
)  # fmt: skip
def test_a_date_is_read_or_unknown(text: bytes | None, moment: int | None) -> None:
    assert parse_date(text) == moment


def test_the_day_of_a_search_leaves_room_for_the_zone_of_the_server() -> None:
    assert search_date(1794916800000) == b"16-Nov-2026"


def test_a_response_shows_no_text_of_the_server() -> None:
    assert "secret" not in repr(parse_response([b"* NO [ALERT] secret"]))
