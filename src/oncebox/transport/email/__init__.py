"""Mail on its way out, one file for each way."""
