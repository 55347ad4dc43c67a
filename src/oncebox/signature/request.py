"""A request as it was received: the raw bytes that signatures are made over."""

from urllib.parse import urlsplit

import msgspec

from oncebox.errors import SignatureInvalid


class Request(msgspec.Struct, frozen=True, kw_only=True, dict=True):
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
    def table(self) -> dict[str, str]:
        """The headers by lower-case name; of repeats, the last."""
        kept = self.__dict__  # by hand: ``cached_property`` takes a lock each time it is made
        if "table" not in kept:
            kept["table"] = {name.lower(): value for name, value in self.headers}
        table: dict[str, str] = kept["table"]
        return table

    def header(self, name: str) -> str:
        """Return the only header of a lower-case name.

        Raises: SignatureInvalid, if it is missing, empty or there twice.
        """
        value = self.table.get(name, "").strip(" \t")
        if not value:
            raise SignatureInvalid("missing_header")
        if len(self.table) != len(self.headers) and self._times(name) > 1:
            # Two readers could pick two different ones.
            raise SignatureInvalid("duplicate_header")
        return value

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters."""
        return self.table.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def query(self) -> str:
        """The query of the address, undecoded."""
        try:
            return urlsplit(self.url).query
        except ValueError:  # such as an unclosed bracket in the host
            return ""

    def _times(self, name: str) -> int:
        return sum(1 for each, _ in self.headers if each.lower() == name)


def octets(text: str) -> bytes:
    """Return the bytes that a header value was made from.

    Servers read headers as Latin-1, so that is tried first; text that never came over a wire may
    hold anything.
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
