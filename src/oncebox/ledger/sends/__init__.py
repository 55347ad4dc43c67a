"""Sends: one intent becomes one mail or an explicit unknown outcome."""
