"""What is not settled yet: interfaces may change between versions."""
