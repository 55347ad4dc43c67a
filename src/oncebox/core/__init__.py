"""Building blocks without domain knowledge: clock, ids, encryption, logging, metrics, egress."""
