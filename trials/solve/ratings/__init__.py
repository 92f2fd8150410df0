"""`solve ratings`: a table of ratings."""
