"""Errors about outgoing mail: invalid content, key conflicts, budgets, templates, DKIM.

OnceboxError
├── SendBudgetSpent               so many were asked for in an hour: come back
├── StateConflict
│   └── SendCoolingDown           a recipient gets such a mail already
└── InputRefused
    ├── EmailInvalid              it cannot be sent as it is
    │   ├── SenderMissing
    │   ├── RecipientMissing
    │   ├── TooManyRecipients
    │   ├── MailboxInvalid        no address, or more than one where one is meant
    │   ├── EmailHeaderInvalid
    │   │   └── HeaderReserved    only Oncebox and the mail servers write it
    │   ├── AttachmentInvalid
    │   └── EmailTooLarge
    ├── SendKeyConflict               another mail has that key
    ├── SendTooLate               its time is over, or before its beginning
    ├── RepliesToAutomaticMail          a program wrote what it answers
    ├── TemplateInvalid
    │   ├── TemplateTooCostly
    │   └── VariableMissing
    └── SigningInvalid            there can be no DKIM signature
"""

from math import ceil

from oncebox.errors import InputRefused, OnceboxError, StateConflict


class EmailInvalid(InputRefused):
    """The mail cannot be sent as it is; nothing of it was stored."""

    code = "email_invalid"


class SenderMissing(EmailInvalid):
    """The mail says from nobody, and there is no default sender."""

    code = "sender_missing"


class RecipientMissing(EmailInvalid):
    """The mail is for nobody."""

    code = "recipient_missing"


class TooManyRecipients(EmailInvalid):
    """The mail is for more people than one mail may be for; bulk is many sends."""

    code = "too_many_recipients"


class MailboxInvalid(EmailInvalid):
    """A sender or recipient is not one address, with or without a name."""

    code = "mailbox_invalid"


class EmailHeaderInvalid(EmailInvalid):
    """A header field, or the subject, has what no header can hold."""

    code = "email_header_invalid"


class HeaderReserved(EmailHeaderInvalid):
    """A header field that a sender cannot set, because it says who gets the mail or steers it."""

    code = "header_reserved"


class AttachmentInvalid(EmailInvalid):
    """An attachment has a name, a type or an id that cannot be written."""

    code = "attachment_invalid"


class EmailTooLarge(EmailInvalid):
    """The mail, its subject or its header is over the limit."""

    code = "email_too_large"


class SendKeyConflict(InputRefused):
    """The key is that of a mail to others, from another, or with other attachments."""

    code = "send_key_conflict"


class SendTooLate(InputRefused):
    """The mail may not be sent any more, or not yet when it may be sent at last."""

    code = "send_too_late"


class SendCoolingDown(StateConflict):
    """Somebody gets a mail of this event type already, under another key; ``send_id`` names it."""

    code = "send_cooling_down"
    send_id: str = ""

    def __init__(self, message: str = "", *, send_id: str = "", wait: float = 0.0) -> None:
        """Take the id of the earlier send, and the seconds until another may be meant."""
        told = (
            "a recipient gets a mail of this event type already, under another key; do not send "
            f"it again under a new key, but ask for the send {send_id}; another mail of this type "
            f"may be sent in {ceil(wait)} s"
        )
        super().__init__(message or told)
        self.send_id = send_id
        self.retry_after = wait or None


class SendBudgetSpent(OnceboxError):
    """This key, or one of the recipients, has had as many sends as an hour may have."""

    code = "send_budget_spent"
    retry_safe = True

    def __init__(self, message: str = "", *, wait: float = 0.0) -> None:
        """Take the seconds after which the same call may succeed."""
        told = f"the budget of this hour is spent; send nothing more, and try in {ceil(wait)} s"
        super().__init__(message or told)
        self.retry_after = wait or None


class RepliesToAutomaticMail(InputRefused):
    """The mail answers one that a program sent by itself, which would go on without end."""

    code = "replies_to_automatic_mail"


class TemplateInvalid(InputRefused):
    """A template, or what is to be filled in, cannot be used."""

    code = "template_invalid"


class TemplateTooCostly(TemplateInvalid):
    """A template takes more steps, or writes more, than one mail may."""

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
    """A key, a selector or a message that no DKIM signature can be made with."""

    code = "signing_invalid"
