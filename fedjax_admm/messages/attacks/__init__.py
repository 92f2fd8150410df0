"""What liars say in the place of their messages."""
