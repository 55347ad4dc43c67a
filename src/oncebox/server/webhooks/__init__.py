"""Webhook endpoint: signed callbacks at ``/in/{public_id}``."""
