"""Delivery workers: claim deliveries, run handlers, journal their effects, settle."""
