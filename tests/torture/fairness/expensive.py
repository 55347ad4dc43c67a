"""Ten kinds of mail that take long to parse for their size."""

import base64
from collections.abc import Callable
from functools import partial

_HTML = "Content-Type: text/html; charset=utf-8"
_PLAIN = "Content-Type: text/plain; charset=utf-8"
_WORDS = "Confirm your account with the code below, or ignore this mail. "
_DEEPEST = 20


def _mail(number: int, kind: str, body: str, *fields: str) -> bytes:
    lines = (
        "From: Flood <flood@flood.example>",
        f"Subject: Your verification code {number}",
        f"Message-ID: <{kind}.{number}@flood.example>",
        "MIME-Version: 1.0",
        *fields,
        "",
        body,
    )
    return "\r\n".join(lines).encode()


def _repeat(piece: str, size: int) -> str:
    return piece * max(1, size // len(piece))


def _mime_tree(size: int, number: int) -> bytes:
    body = _repeat(f"{_WORDS}\r\n", size // _DEEPEST)
    for depth in range(_DEEPEST):
        body = (
            f"--b{depth}\r\n{_PLAIN}\r\n\r\n{_repeat(_WORDS, size // _DEEPEST)[:900]}\r\n"
            f"--b{depth}\r\nContent-Type: multipart/mixed; boundary=b{depth - 1}\r\n\r\n"
            f"{body}\r\n--b{depth}--\r\n"
        )
    last = f"Content-Type: multipart/mixed; boundary=b{_DEEPEST - 1}"
    return _mail(number, "tree", body, last)


def _huge_html(size: int, number: int) -> bytes:
    return _mail(number, "html", _repeat(f"<p>{_WORDS}</p>\r\n", size), _HTML)


def _deep_nesting(size: int, number: int) -> bytes:
    return _mail(number, "deep", _repeat("<div style=color:red>x\r\n", size), _HTML)


def _many_links(size: int, number: int) -> bytes:
    link = '<a href="https://shop.example/verify?token=Zk3vQ9xT7LmW2pRs{}">Sign in</a>\r\n'
    links = (link.format(each) for each in range(max(1, size // len(link))))
    return _mail(number, "links", "".join(links), _HTML)


def _base64(size: int, number: int) -> bytes:
    encoded = base64.encodebytes(_repeat(_WORDS, size * 3 // 4).encode()).decode()
    body = encoded.replace("\n", "\r\n")
    return _mail(number, "base64", body, _PLAIN, "Content-Transfer-Encoding: base64")


def _many_candidates(size: int, number: int) -> bytes:
    text = "Your verification code is {:06} or {:04}-{:04}\r\n"
    lines = (text.format(each, each, each) for each in range(max(1, size // len(text))))
    return _mail(number, "candidates", "".join(lines), _PLAIN)


def _css(size: int, number: int) -> bytes:
    rule = ".c{} {{ color: #{:06x}; font-size: {}px }}\r\n"
    rules = "".join(rule.format(each, each, each % 30) for each in range(size // 2 // len(rule)))
    used = "".join(f'<p class="c{each} c{each + 1}">482915\r\n' for each in range(size // 2 // 30))
    return _mail(number, "css", f"<style>{rules}</style>{used}", _HTML)


def _long_lines(size: int, number: int) -> bytes:
    line = _repeat("code 482915 token Zk3vQ9xT7LmW2pRs ", 60_000)
    return _mail(number, "lines", "\r\n".join([line] * max(1, size // len(line))), _PLAIN)


def _many_parts(size: int, number: int) -> bytes:
    part = f"--b\r\n{_PLAIN}\r\n\r\n{_WORDS * 3}\r\n"
    return _mail(
        number, "parts", _repeat(part, size) + "--b--", "Content-Type: multipart/mixed; boundary=b"
    )


def _unicode(size: int, number: int) -> bytes:
    right_to_left = "\u202e\u05e7\u05d5\u05d3 \u0627\u0644\u0631\u0645\u0632"
    text = f"{right_to_left} e\u0301\u200b\u0661\u0662\u0663\u0664\u0665\u0666 "
    return _mail(number, "unicode", _repeat(f"{text * 8}\r\n", size // 2), _PLAIN)


#: each makes a mail of about so many bytes, with a number of its own
Kind = Callable[[int, int], bytes]
KINDS: dict[str, Kind] = {
    "large MIME trees": _mime_tree,
    "huge HTML": _huge_html,
    "deep nesting": _deep_nesting,
    "many links": _many_links,
    "base64 bombs": _base64,
    "many candidates": _many_candidates,
    "CSS heavy": _css,
    "long lines": _long_lines,
    "many parts": _many_parts,
    "RTL and Unicode heavy": _unicode,
}
#: bytes of those that are small enough to be tried at once, and of those that are not
SMALL, LARGE = 200_000, 2_000_000


def mails(first: int, sizes: tuple[int, ...] = (SMALL, LARGE)) -> list[Callable[[], bytes]]:
    """Return a maker for a mail of each kind and size, numbered from ``first``."""
    made = [(kind, size) for size in sizes for kind in KINDS.values()]
    return [partial(kind, size, first + number) for number, (kind, size) in enumerate(made)]
