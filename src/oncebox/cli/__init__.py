"""Words typed at a terminal: what operators see of the ledger, and do to it."""
