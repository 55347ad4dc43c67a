"""Attempts: owners, actions begun once, and the resend budget."""
