"""Message purpose: signup, login, reset, invite."""

from enum import StrEnum


class Purpose(StrEnum):
    """The purpose of a message, as inboxes and waits name it."""

    ANY = "any"
    SIGNUP = "signup"
    LOGIN = "login"
    RESET = "reset"
    INVITE = "invite"
