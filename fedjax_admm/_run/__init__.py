"""Running a solver: rounds in a scan or a loop, what is checked before, which keys have served."""
