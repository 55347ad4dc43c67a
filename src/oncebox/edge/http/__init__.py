"""The API below ``/v1``, and what the service says about itself."""
