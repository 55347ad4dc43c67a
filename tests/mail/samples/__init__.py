"""Mails made up for the tests, by language and by what is in them."""
