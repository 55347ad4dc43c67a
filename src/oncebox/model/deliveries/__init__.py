"""Deliveries: accepted webhooks and mails, their effects, retries and duplicates."""
