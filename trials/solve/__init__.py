"""One problem of a user of their own, from a file."""
