"""Tests of users: many workers of xdist on one service."""
