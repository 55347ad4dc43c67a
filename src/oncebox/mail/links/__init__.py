"""Links: the one a mail is about, and which links clients may receive."""
