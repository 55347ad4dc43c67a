"""Programs that the worker under test runs."""
