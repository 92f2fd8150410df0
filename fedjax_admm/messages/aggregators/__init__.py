"""One vector out of many, of which some may be false."""
