"""Custom verifiers, named after providers whose signatures no `Scheme` table can describe."""
