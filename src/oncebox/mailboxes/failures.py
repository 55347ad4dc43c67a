"""Codes of failed mailboxes with their remedies, for `oncebox mailbox test` and the pages."""

#: codes that share a remedy
_Table = tuple[tuple[tuple[str, ...], str], ...]

IMAP_FAILURES: _Table = (
    (
        ("host_not_found", "connect_failed", "timed_out", "server_closed", "server_unavailable"),
        "tried again later; check the host and port of the URL",
    ),
    (("throttled",), "tried again after the time that the server asks for, or a minute"),
    (
        ("certificate_refused",),
        "the certificate is not trusted: check the host name; for a CA of your own add `--ca FILE`",
    ),
    (
        ("starttls_missing", "tls_failed"),
        "the connection is not safe: check the port, and `imap://` or `imaps://`",
    ),
    (
        ("login_refused", "login_unavailable"),
        (
            "the password or token is wrong, or the server offers no usable login: many providers "
            "need an app password"
        ),
    ),
    (
        ("folder_missing", "folder_refused"),
        "the folder is gone or cannot be opened: check its name",
    ),
    (
        ("uidvalidity_missing", "uidvalidity_unstable"),
        "the server has no lasting ids for mails and cannot be read",
    ),
    (("server_refused", "mail_refused"), "the server refused a command or one mail"),
    (
        ("answer_invalid", "answer_too_large"),
        "the server does not speak the protocol, or sends more than was asked for: check the URL",
    ),
    (
        ("token_refused", "token_url_refused", "token_command_missing"),
        "the source of tokens must be changed, or the account connected again",
    ),
    (
        (
            "token_unavailable",
            "token_invalid",
            "token_command_failed",
            "token_command_timed_out",
        ),
        "no token now; tried again later",
    ),
)

#: those of mailboxes over HTTP besides
_API_FAILURES: _Table = (
    (("not_found",), "no such inbox, user or account: check `--api-inbox` and `--username`"),
    (("request_refused",), "the server does not take the request: check the kind and the URL"),
    (("redirected",), "the URL leads elsewhere: give the right one"),
    (("link_refused",), "a link leads to another host: add it to `hosts` of the table"),
    (("mail_unsupported",), "the JMAP server has no mail: check the URL"),
    (("server_error",), "the server has a fault; tried again later"),
    (("no_progress", "cursor_unstable"), "the server gives no lasting position; tried again later"),
)

#: what helps, by the code of a failure
REMEDIES: dict[str, str] = {
    code: remedy for codes, remedy in (*IMAP_FAILURES, *_API_FAILURES) for code in codes
}
