"""Fairness under torture: a flood of expensive mail for one tenant, against codes of another."""
