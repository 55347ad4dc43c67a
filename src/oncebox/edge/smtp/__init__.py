"""SMTP: how mail comes in, from any mail server."""
