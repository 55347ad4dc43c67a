"""Events: what the outside is told, in one sequence for each tenant."""
