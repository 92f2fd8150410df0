"""Real ranges and moving targets."""
