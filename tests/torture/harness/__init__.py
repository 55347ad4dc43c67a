"""The harness tried on stand-ins: what is right must pass, and each mutant must be caught."""
