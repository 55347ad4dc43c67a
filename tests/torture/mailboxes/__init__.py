"""Torture of mailboxes: the same mails by SMTP, webhook and poll, while readers are killed."""
