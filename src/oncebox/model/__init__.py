"""Domain values: frozen structs, state machines and pure rules; no I/O, no clock."""
