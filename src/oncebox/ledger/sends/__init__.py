"""Sends: one intent, one mail, or an honest `unknown`."""
