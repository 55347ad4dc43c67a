"""HTTP request as received: headers, raw body, and form fields (URL-encoded, multipart)."""

import re
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from oncebox.errors import SignatureInvalid


class WebhookRequest(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Method, address, headers and body, exactly as they came."""

    #: ``POST``, as in the request line
    method: str = "POST"
    #: the whole address as the sender knows it
    url: str = ""
    #: in order, repeats included
    headers: tuple[tuple[str, str], ...] = ()
    #: the bytes on the wire, before any decoding
    body: bytes = b""

    @property
    def headers_by_name(self) -> dict[str, str]:
        """The headers by lower-case name; of repeats, the last."""
        cache = self.__dict__  # by hand: ``cached_property`` takes a lock each time it is made
        if "headers_by_name" not in cache:
            cache["headers_by_name"] = {name.lower(): value for name, value in self.headers}
        table: dict[str, str] = cache["headers_by_name"]
        return table

    def header(self, name: str) -> str:
        """Return the only header of a lower-case name.

        Raises: SignatureInvalid, if it is missing, empty or there twice.
        """
        value = self.headers_by_name.get(name, "").strip(" \t")
        if not value:
            raise SignatureInvalid("missing_header")
        if len(self.headers_by_name) != len(self.headers):
            names = [each.lower() for each, _ in self.headers]
            if names.count(name) > 1:  # two readers could pick two different ones
                raise SignatureInvalid("duplicate_header")
        return value

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters."""
        return self.headers_by_name.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def query(self) -> str:
        """The query of the address, undecoded."""
        try:
            return urlsplit(self.url).query
        except ValueError:  # such as an unclosed bracket in the host
            return ""


def header_bytes(text: str) -> bytes:
    """Return the bytes that a header value was made from.

    Servers read headers as Latin-1, so that is tried first; text that never came over a wire may
    hold anything.
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


FormFields = list[tuple[bytes, bytes]]

_MAX_FORM_FIELDS = 2_000
_MAX_PART_HEADER_BYTES = 8_192
_BOUNDARY = re.compile(
    r"""multipart/form-data.*;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))""", re.IGNORECASE
)
#: only where a line begins: else each of many in one line would be looked at to its end
_PART_NAME = re.compile(
    rb"""[\r\n]content-disposition:[ \t]*form-data;[^\r\n]*?\bname="([^"\r\n]*)\"""", re.IGNORECASE
)
_PART_FILENAME = re.compile(rb"[\r\n]content-disposition:[^\r\n]*\bfilename\*?=", re.IGNORECASE)


def form_fields(request: WebhookRequest) -> FormFields | None:
    """Return the fields of a form in order, or None if the body is not one, or too large a one."""
    if request.content_type == "multipart/form-data":
        return _multipart(request)
    return parse_urlencoded(request.body)


def parse_urlencoded(text: bytes) -> FormFields | None:
    """Return the fields of URL-encoded text; empty values count, and ``;`` separates nothing."""
    if not text:
        return []
    if text.count(b"&") >= _MAX_FORM_FIELDS:
        return None
    return [
        (_percent_decoded(name), _percent_decoded(value))
        for name, _, value in (each.partition(b"=") for each in text.split(b"&") if each)
    ]


def last_form_value(fields: FormFields | None, name: str) -> bytes | None:
    """Return the last value of a field."""
    wanted = name.encode()
    return next((value for each, value in reversed(fields or []) if each == wanted), None)


def _percent_decoded(text: bytes) -> bytes:
    # Bytes stay bytes: text would merge different malformed bodies into one.
    return unquote_to_bytes(text.replace(b"+", b" "))


def _multipart(request: WebhookRequest) -> FormFields | None:
    found = _BOUNDARY.match(request.headers_by_name.get("content-type", ""))
    if found is None:
        return None
    line = b"\r\n--" + (found[1] or found[2]).encode("utf-8", "surrogatepass")
    body = b"\r\n" + request.body
    if body.count(line) > _MAX_FORM_FIELDS:
        return None
    fields: FormFields = []
    for part in body.split(line)[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        name = _PART_NAME.search(head) if len(head) <= _MAX_PART_HEADER_BYTES else None
        if name is not None and not _PART_FILENAME.search(head):
            fields.append((name[1], value))
    return fields
