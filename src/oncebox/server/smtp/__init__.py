"""SMTP server: receives mail from any mail server."""
