"""Personalities: how one provider or another takes mail, refuses it and tells of it."""
