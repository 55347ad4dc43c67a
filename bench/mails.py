"""The mails that are measured: plain text and HTML, or HTML alone; no two alike."""

from __future__ import annotations

import os

_PARAGRAPH = (
    "Thank you for your order. Your parcel leaves our house today and should reach you within "
    "three working days; we tell you as soon as the carrier has it. "
)


#: what a mail of HTML alone is about
CODE = "482915"
LINK = "https://app.sender.example/verify?token=Zk3vQ9xT7LmW2pRs8Yd4"


def html_mail(number: int, size: int) -> bytes:
    """Return a mail of HTML alone of about so many bytes: a code, a button, and much beside it."""
    head = (
        f"From: Sender <hello@sender.example>\r\nTo: ann@oncebox.test\r\n"
        f"Subject: Your verification code\r\nMessage-ID: <code-{number}@sender.example>\r\n"
        f"Date: Mon, 16 Nov 2026 04:00:00 +0000\r\nMIME-Version: 1.0\r\n"
        f'Content-Type: text/html; charset="utf-8"\r\nContent-Transfer-Encoding: 8bit\r\n\r\n'
    )
    start = (
        '<html><body><table width="600"><tr><td><h1>Verify your email</h1></td></tr>'
        "<tr><td>Enter this code to finish signing up:</td></tr>"
        f'<tr><td style="font-size:32px;letter-spacing:4px"><b>{CODE}</b></td></tr>'
        f'<tr><td><a href="{LINK}" style="background:#06c;color:#fff">Verify email</a></td></tr>'
    )
    end = (
        '<tr><td><a href="https://www.sender.example/help">Help</a> '
        '<a href="https://www.sender.example/unsubscribe?u=1">Unsubscribe</a></td></tr>'
        "</table></body></html>\r\n"
    )
    row = f'<tr><td style="padding:4px">{_PARAGRAPH}</td><td><b>{number}.</b></td></tr>\r\n'
    rows = row * ((size - len(head) - len(start) - len(end)) // len(row))
    return (head + start + rows + end).encode()


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
