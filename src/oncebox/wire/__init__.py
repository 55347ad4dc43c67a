"""The JSON the outside sees, shared by the service and its client."""
