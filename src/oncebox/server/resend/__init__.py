"""Resend-compatible ``/emails`` endpoint."""
