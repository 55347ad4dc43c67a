"""Links: the one a mail is about, and which links may be handed out."""
