"""Side-by-side measurements of Oncebox against the usual ways of doing the same."""
