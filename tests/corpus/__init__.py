"""The corpus: mails of real products, judged by what a person would take from them."""
