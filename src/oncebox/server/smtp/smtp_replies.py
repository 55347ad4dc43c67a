"""SMTP replies, and the replies that are constant per server."""

import msgspec

from oncebox.settings import SmtpSettings


def _reply(text: str) -> bytes:
    return f"{text}\r\n".encode()


OK = _reply("250 2.0.0 ok")
SENDER_OK = _reply("250 2.1.0 sender ok")
RECIPIENT_OK = _reply("250 2.1.5 recipient ok")
STORED = _reply("250 2.0.0 stored")
GO_AHEAD = _reply("354 end the mail with a dot on a line of its own")
READY_FOR_TLS = _reply("220 2.0.0 ready for TLS")
LOGGED_IN = _reply("235 2.7.0 any credentials are accepted: this is test mode")
BYE = _reply("221 2.0.0 bye")
HELP = _reply("214 2.0.0 EHLO HELO MAIL RCPT DATA RSET NOOP VRFY STARTTLS QUIT")
VRFY_NOT_DISCLOSED = _reply("252 2.1.5 send a mail to find out")

# temporary
SHUTTING_DOWN = _reply("421 4.3.2 the service is stopping, try again in a moment")
TOO_SLOW = _reply("421 4.4.2 that took too long")
SESSION_OVER = _reply("421 4.4.2 this connection was open for too long, come back with a new one")
TOO_MANY_ERRORS = _reply("421 4.7.0 too many mistakes")
TOO_MUCH_JUNK = _reply("421 4.7.0 too many commands without a mail")
TOO_MANY_CONNECTIONS = _reply("421 4.7.0 too many connections, try again later")
TRY_LATER = _reply("451 4.3.0 the mail cannot be stored now, try again later")
DISK_FULL = _reply("452 4.3.1 insufficient storage, try again later")
INBOX_FULL = _reply("452 4.2.2 the storage of this inbox is full, try again later")
TOO_MUCH_FROM_ADDRESS = _reply("452 4.7.1 too much mail from your address, try again in a minute")
TOO_MUCH_FOR_INBOX = _reply("452 4.2.1 too much mail for this inbox, try again in a minute")
TOO_MANY_RECIPIENTS = _reply("452 4.5.3 too many recipients, send the rest with another copy")

# permanent
LINE_TOO_LONG = _reply("500 5.5.2 line too long")
BARE_LINE_END = _reply("500 5.5.2 a command ends with CR and LF")
UNKNOWN_COMMAND = _reply("500 5.5.2 unknown command")
NOT_PRINTABLE = _reply("500 5.5.2 a command is printable text")
ARGUMENT_WRONG = _reply("501 5.5.4 wrong argument")
PATH_WRONG = _reply("501 5.1.7 not a sender such as <name@example.com>")
RECIPIENT_WRONG = _reply("501 5.1.3 not an address such as <name@example.com>")
AUTH_ANSWER_WRONG = _reply("501 5.5.2 not the answer in base64 that AUTH asked for")
AUTH_CANCELLED = _reply("501 5.7.0 AUTH was cancelled")
NOT_OFFERED = _reply("502 5.5.1 not offered here")
HELLO_FIRST = _reply("503 5.5.1 say EHLO first")
MAIL_FIRST = _reply("503 5.5.1 say MAIL first")
MAIL_TWICE = _reply("503 5.5.1 one mail at a time")
TLS_TWICE = _reply("503 5.5.1 TLS is in use already")
AUTH_TWICE = _reply("503 5.5.1 logged in already")
AUTH_INSIDE_MAIL = _reply("503 5.5.1 say AUTH before MAIL")
MECHANISM_UNKNOWN = _reply("504 5.5.4 AUTH is PLAIN or LOGIN here")
NO_RECIPIENTS = _reply("554 5.5.1 no valid recipients")
UNKNOWN_INBOX = _reply("550 5.1.1 there is no such inbox here")
CLOSED_INBOX = _reply("550 5.2.1 this inbox is closed")
NOT_OURS = _reply("550 5.7.1 mail for that domain is not taken here")
BARE_IN_MAIL = _reply("550 5.5.2 a line of the mail ends with a bare CR or LF")
MAIL_LINE_TOO_LONG = _reply("550 5.6.0 a line of the mail is too long")
TOO_LARGE = _reply("552 5.3.4 the mail is too large")
UTF8_NEEDED = _reply("553 5.6.7 an address beyond ASCII needs SMTPUTF8")
PARAMETER_UNKNOWN = _reply("555 5.5.4 unknown parameter")


class SessionRules(msgspec.Struct, frozen=True):
    """The settings and replies that all sessions of a server share."""

    settings: SmtpSettings
    greeting: bytes
    hello: bytes
    #: the reply to EHLO, without and with TLS in use
    ehlo: bytes
    ehlo_inside_tls: bytes
    starttls: bool
    #: whether AUTH is offered, with any credentials; only in test mode
    auth: bool = False

    @classmethod
    def from_settings(
        cls, settings: SmtpSettings, hostname: str, *, starttls: bool, auth: bool = False
    ) -> "SessionRules":
        """Build the replies."""
        offers = [hostname, f"SIZE {settings.size}", "PIPELINING", "8BITMIME", "SMTPUTF8"]
        offers += ["AUTH PLAIN LOGIN"] if auth else []
        ehlo = b"".join(_reply(f"250-{offer}") for offer in offers)
        last = _reply("250 ENHANCEDSTATUSCODES")
        return cls(
            settings=settings,
            greeting=_reply(f"220 {hostname} ESMTP Oncebox"),
            hello=_reply(f"250 {hostname}"),
            ehlo=ehlo + (_reply("250-STARTTLS") if starttls else b"") + last,
            ehlo_inside_tls=ehlo + last,
            starttls=starttls,
            auth=auth,
        )
