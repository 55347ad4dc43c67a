"""Who acts: the loop that claims work, runs handlers, journals effects and settles."""
