"""Periodic jobs of every worker process: retention, inbox expiry, event numbering."""
