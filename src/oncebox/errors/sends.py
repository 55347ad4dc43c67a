"""Errors about outgoing mail: invalid content, key conflicts, budgets, templates, DKIM.

OnceboxError
├── SendBudgetSpent               the hourly limit: retry later
├── StateConflict
│   └── SendCoolingDown           a recipient got such a mail recently
└── InputRefused
    ├── EmailInvalid              it cannot be sent as it is
    │   ├── SenderMissing
    │   ├── RecipientMissing
    │   ├── TooManyRecipients
    │   ├── MailboxInvalid        not exactly one address
    │   ├── EmailHeaderInvalid
    │   │   └── HeaderReserved    only Oncebox and the mail servers write it
    │   ├── AttachmentInvalid
    │   └── EmailTooLarge
    ├── SendKeyConflict           another mail has that key
    ├── SendTooLate               its deadline has passed
    ├── RepliesToAutomaticMail
    ├── TemplateInvalid
    │   ├── TemplateTooCostly
    │   └── VariableMissing
    └── SigningInvalid            DKIM signing is impossible
"""

from math import ceil

from oncebox.errors import InputRefused, OnceboxError, StateConflict


class EmailInvalid(InputRefused):
    """The mail cannot be sent as it is; nothing was stored."""

    code = "email_invalid"


class SenderMissing(EmailInvalid):
    """The mail has no From address, and there is no default sender."""

    code = "sender_missing"


class RecipientMissing(EmailInvalid):
    """The mail has no recipient."""

    code = "recipient_missing"


class TooManyRecipients(EmailInvalid):
    """The mail has too many recipients; send bulk mail as separate sends."""

    code = "too_many_recipients"


class MailboxInvalid(EmailInvalid):
    """A sender or recipient is not one address, with or without a name."""

    code = "mailbox_invalid"


class EmailHeaderInvalid(EmailInvalid):
    """A header field or the subject has characters that no header may contain."""

    code = "email_header_invalid"


class HeaderReserved(EmailHeaderInvalid):
    """The header field is reserved: it names recipients or controls the transport."""

    code = "header_reserved"


class AttachmentInvalid(EmailInvalid):
    """The name, type or id of an attachment is invalid."""

    code = "attachment_invalid"


class EmailTooLarge(EmailInvalid):
    """The mail, its subject or its header is over the limit."""

    code = "email_too_large"


class SendKeyConflict(InputRefused):
    """The key belongs to a mail with another sender, recipients or attachments."""

    code = "send_key_conflict"


class SendTooLate(InputRefused):
    """The deadline of the mail has passed, or is before its start time."""

    code = "send_too_late"


class SendCoolingDown(StateConflict):
    """A recipient got a mail of this event type under another key; ``send_id`` names it."""

    code = "send_cooling_down"
    send_id: str = ""

    def __init__(self, message: str = "", *, send_id: str = "", wait: float = 0.0) -> None:
        """Take the id of the earlier send, and the seconds until another is allowed."""
        default = (
            "a recipient gets a mail of this event type already, under another key; do not send "
            f"it again under a new key, but ask for the send {send_id}; another mail of this type "
            f"may be sent in {ceil(wait)} s"
        )
        super().__init__(message or default)
        self.send_id = send_id
        self.retry_after = wait or None


class SendBudgetSpent(OnceboxError):
    """The hourly limit of sends is reached, for this key or a recipient."""

    code = "send_budget_spent"
    retry_safe = True

    def __init__(self, message: str = "", *, wait: float = 0.0) -> None:
        """Take the seconds after which the same call may succeed."""
        default = f"the budget of this hour is spent; send nothing more, and try in {ceil(wait)} s"
        super().__init__(message or default)
        self.retry_after = wait or None


class RepliesToAutomaticMail(InputRefused):
    """The mail replies to an automatic mail, which could loop forever."""

    code = "replies_to_automatic_mail"


class TemplateInvalid(InputRefused):
    """A template or its variables are invalid."""

    code = "template_invalid"


class TemplateTooCostly(TemplateInvalid):
    """A template exceeds the limits of steps or output."""

    code = "template_too_costly"


class VariableMissing(TemplateInvalid):
    """A template uses a variable that was not given; ``name`` says which."""

    code = "variable_missing"
    name: str = ""

    def __init__(self, name: str = "") -> None:
        """Take the name as the template writes it; empty if it is made while rendering."""
        shown = f"the variable {name}" if name else "a variable"
        super().__init__(f"{shown} is missing; give it, or write a default into the template")
        self.name = name


class SigningInvalid(InputRefused):
    """A key, selector or message that cannot be DKIM-signed."""

    code = "signing_invalid"
