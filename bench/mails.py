"""The mails that are measured: 30 KB each, plain text and HTML, no two alike."""

from __future__ import annotations

import os

_PARAGRAPH = (
    "Thank you for your order. Your parcel leaves our house today and should reach you within "
    "three working days; we tell you as soon as the carrier has it. "
)


def pin() -> None:
    """Stay on one core, children included."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def mail(number: int) -> bytes:
    """Return one mail of about 30 KB."""
    plain = "\r\n".join(f"{_PARAGRAPH}({number}.{line})" for line in range(66))
    rows = "".join(
        f'<tr><td style="padding:4px">{_PARAGRAPH}</td><td><b>{number}.{row}</b></td></tr>'
        for row in range(92)
    )
    html = f"<html><body><table>{rows}</table></body></html>"
    head = (
        f"Received: from mx{number}.example.com by in.example.net; Mon, 16 Nov 2026 04:00:00 +0000",
        f"From: =?utf-8?q?The_Sh=C3=B6p?= <orders@shop{number % 50}.example.com>",
        "To: Ann Lee <ann@oncebox.test>",
        f"Subject: =?utf-8?q?Your_order_{number}_is_on_its_way=E2=80=A6?=",
        "Date: Mon, 16 Nov 2026 04:00:00 +0000",
        f"Message-ID: <order-{number}@shop.example.com>",
        "Reply-To: help@shop.example.com",
        "List-Unsubscribe: <https://shop.example.com/u>",
        "MIME-Version: 1.0",
        'Content-Type: multipart/alternative; boundary="part"',
    )
    parts = (
        "--part", 'Content-Type: text/plain; charset="utf-8"', "Content-Transfer-Encoding: 8bit",
        "", plain,
        "--part", 'Content-Type: text/html; charset="utf-8"', "Content-Transfer-Encoding: 8bit",
        "", html, "--part--", "",
    )  # fmt: skip
    return "\r\n".join((*head, "", *parts)).encode()
