"""Deliveries: accept once, order, lease, journal effects, settle, inspect, quarantine."""
