"""The ledger: functions of a transaction, grouped by noun, each module beside its SQL."""
