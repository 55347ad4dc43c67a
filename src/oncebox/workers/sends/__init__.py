"""Send workers: claim queued mail, hand it to its transport, record the outcome."""
