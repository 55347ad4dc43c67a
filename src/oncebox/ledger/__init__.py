"""What is known: verbs over the store, grouped by noun, each page beside its SQL."""
