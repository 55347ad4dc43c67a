"""What happens in the world: transports hand over, and say as an outcome what is known after."""
