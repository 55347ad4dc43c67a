"""`oncebox demo`: five failures played against a real service and a naive program."""
