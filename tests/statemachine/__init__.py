"""The ledger driven at random beside a plain model of it."""
