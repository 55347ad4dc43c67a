"""Webhooks: how signed callbacks come in, at ``/in/{public_id}``."""
