"""The framing of a request: whether all of its body has come, and what came besides.

The parser finds where a request ends. Here is counted whether that can be true: by mistake it
may take a part of a body for all of it, and what is left for the next request.
"""

from oncebox.edge.express import Headers

_LENGTH = b"content-length"
_CHUNKED = b"transfer-encoding"
#: bytes of a header besides its name and value
_FIELD_SIGNS = 4
#: bytes that a chunk of the largest size needs around it; beyond them it has extensions
_CHUNK_SIGNS = 20


class Unframed(Exception):
    """Where a request ends cannot be trusted; stops the parser."""


class Framing:
    """Counts one request after the other."""

    def __init__(self, most: int) -> None:
        """Begin before a head; ``most`` bytes may come besides a body."""
        self._most = most
        #: whether the head is whole; headers that come now are of a trailer
        self.has_head = False
        self._body = 0
        self._chunks = 0
        #: bytes of whole headers in the trailer
        self._trailer = 0
        #: bytes read since the head that neither are body nor are needed around chunks
        self._others = 0

    def begin(self) -> None:
        """Count from the end of a head."""
        self.has_head = True
        self._body = self._chunks = self._trailer = self._others = 0

    def end(self, headers: Headers) -> None:
        """Await the next head.

        Raises: Unframed; of the body has not come what these headers announced.
        """
        if not self._is_whole(headers):
            raise Unframed
        self.has_head = False

    def add_read(self, size: int) -> None:
        """Count bytes before they are parsed; small chunks have saved nothing up for them."""
        self._others = max(0, self._others) + size

    def add_body(self, size: int) -> None:
        """Count bytes of the body."""
        self._body += size
        self._others -= size

    def add_chunk(self) -> None:
        """Count a chunk; the last one, which is empty, is one too."""
        self._chunks += 1
        self._others -= _CHUNK_SIGNS

    def add_field(self, name: bytes, value: bytes) -> None:
        """Count a header in a trailer.

        Raises: Unframed; there are too many of them.
        """
        self._trailer += len(name) + len(value) + _FIELD_SIGNS
        if self.has_large_trailer:
            raise Unframed

    @property
    def has_large_trailer(self) -> bool:
        """Whether there were too many headers in a trailer."""
        return self._trailer > self._most

    def is_large(self) -> bool:
        """Say, after a read, whether too much has come besides a body, whole headers or not.

        The parser keeps a header until it is whole, and would keep one without an end.
        """
        return self.has_head and self._others > self._most

    def _is_whole(self, headers: Headers) -> bool:
        for name, value in headers:
            if name == _LENGTH:
                return self._body == int(value)
            if name == _CHUNKED:
                return self._chunks > 0
        return not self._body
