"""Several rooms together: what heals by itself, and the torture in its short form."""
