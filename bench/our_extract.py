"""Our side of extraction: raw mail in, code and link out, on one core, in one process."""

from __future__ import annotations

import argparse
import time

from bench import load
from bench.mails import CODE, LINK, html_mail, pin
from oncebox.mail.parser import parse

SECONDS = 5.0
_KIB = 1024


def main() -> None:
    """Report how many mails, or bytes of them, are read a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="not used: nothing is stored")
    parser.add_argument("--kib", type=int, required=True)
    parser.add_argument("--bytes", action="store_true", help="report KiB a second")
    options = parser.parse_args()
    pin()
    mails = [html_mail(number, options.kib * _KIB) for number in range(max(4, 200 // options.kib))]
    _check(mails[0])
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        parse(mails[count % len(mails)])
        count += 1
    rate = count / (time.perf_counter() - began)
    load.report(rate * options.kib if options.bytes else rate, f"{options.kib} KiB, one core")


def _check(raw: bytes) -> None:
    """Refuse to measure something that does not find what is there."""
    found = parse(raw).found
    if (found.code and found.code.value, found.link and found.link.value) != (CODE, LINK):
        raise SystemExit("the code or the link of the mail was not found")


if __name__ == "__main__":
    main()
