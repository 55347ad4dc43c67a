"""Endpoints: their configuration and circuit breakers, and the deliveries that events make."""
