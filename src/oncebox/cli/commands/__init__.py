"""The commands, one module per command group; imported only when a command is called."""
