"""Total variation and trends: proximal maps on chains and images."""
