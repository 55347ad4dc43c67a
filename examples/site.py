"""A small signup site for the other examples: it mails a code and asks for it.

    python -m examples.site                 # mails to a service on 127.0.0.1:2525

Every code is mailed twice, as by a mail server that gets no reply, and is valid for one account.
So a repeated step is noticed here.
"""

import secrets
import smtplib
import sys
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl

EMAIL = '<label>Email <input name="email" type="email"></label>'
CODE = '<input name="email" type="hidden" value="{email}"><label>Code <input name="code"></label>'


def form(action: str, text: str, fields: str, button: str) -> str:
    return (
        f'<!doctype html><title>Shop</title><form action="/{action}" method="post">'
        f"<p>{text}</p>{fields}<button>{button}</button></form>"
    )


class Site(ThreadingHTTPServer):
    """The site; ``log`` has every mail, account and refusal, in order."""

    def __init__(self, smtp: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Pages)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.smtp = smtp
        self.codes: dict[str, str] = {}
        self.log: list[tuple[str, str]] = []

    def mail_code(self, email: str) -> None:
        self.codes[email] = f"{secrets.randbelow(10**6):06}"
        self._note("mail", email)
        mail = EmailMessage()
        mail["From"], mail["To"] = "no-reply@shop.example", email
        mail["Subject"] = "Confirm your account"
        mail["Message-ID"], mail["Date"] = make_msgid(domain="shop.example"), formatdate()
        mail.set_content(f"Your verification code is {self.codes[email]}.")
        host, _, port = self.smtp.rpartition(":")
        with smtplib.SMTP(host, int(port)) as server:
            server.send_message(mail)
            server.send_message(mail)

    def open_account(self, email: str, code: str) -> bool:
        opened = self.codes.pop(email, None) == code
        self._note("account" if opened else "refused", email)
        return opened

    def _note(self, what: str, email: str) -> None:
        self.log.append((what, email))
        print(f"{what}: {email}", flush=True)


class Pages(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self._answer(200, form("signup", "Sign up with your address.", EMAIL, "Sign up"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        given = dict(parse_qsl(body))
        if self.path == "/signup":
            self.server.mail_code(given["email"])
            fields = CODE.format(email=escape(given["email"]))
            self._answer(200, form("verify", "We have sent you a code.", fields, "Verify"))
        elif self.server.open_account(given["email"], given.get("code", "")):
            self._answer(200, "<!doctype html><title>Shop</title><p>Welcome!</p>")
        else:
            self._answer(409, "<!doctype html><title>Shop</title><p>This code is not valid.</p>")

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has there
        """Say nothing; what matters is in the log of the site."""


if __name__ == "__main__":
    with Site(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2525", port=8000) as site:
        print(f"listening at {site.url}", flush=True)
        site.serve_forever()
