"""Test support: the pytest plugin, test mode and chaos, scripted SMTP and provider servers."""
