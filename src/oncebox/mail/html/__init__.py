"""HTML of mail: what a person would see of it, how it is emphasised, what is hidden."""
