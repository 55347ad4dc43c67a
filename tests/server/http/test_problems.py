"""Problems have one shape, and say nothing that the error did not mean for the caller."""

import json

from hypothesis import given
from hypothesis import strategies as st

from oncebox import errors
from oncebox.errors import OnceboxError
from oncebox.errors import http as http_errors
from oncebox.server.http import problems

KINDS = [
    each
    for module in (errors, http_errors)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, OnceboxError)
]
SILENT = [errors.StoreFailed, errors.DatabaseUnreachable, errors.NotFound, errors.MasterKeyWrong]


@given(
    kind=st.sampled_from(KINDS),
    words=st.text(max_size=50),
    request_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True),
)
def test_every_error_becomes_a_problem(
    kind: type[OnceboxError], words: str, request_id: str
) -> None:
    described = problems.describe(kind(words), request_id)
    headers, body = problems.response(described)
    told = json.loads(body)

    assert told["status"] == problems.status(kind)
    assert told["code"] == kind.code
    assert told["retry_safe"] is kind.retry_safe
    assert told["request_id"] == request_id
    assert told["type"] == f"/problems/{kind.code}"
    assert told["detail"]
    assert dict(headers)[b"content-length"] == str(len(body)).encode()
    assert (b"retry-after" in dict(headers)) == (
        kind.retry_safe and told["status"] in {409, 429, 503}
    )


@given(kind=st.sampled_from(SILENT), words=st.text("abcdef", min_size=10))
def test_errors_from_inside_are_told_by_what_they_are_only(
    kind: type[OnceboxError], words: str
) -> None:
    described = problems.describe(kind(words), "r")

    assert described.detail == described.title == problems.error_title(kind)


@given(st.sampled_from(KINDS))
def test_a_raw_problem_is_a_whole_response(kind: type[OnceboxError]) -> None:
    head, _, body = problems.raw_response(kind, "r").partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 %d " % problems.status(kind))
    assert b"connection: close" in head
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["code"] == kind.code
