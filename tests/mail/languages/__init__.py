"""Tests of the word tables."""
