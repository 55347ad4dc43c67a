"""Languages: the words that tell codes, links and purposes, and how text is folded."""
