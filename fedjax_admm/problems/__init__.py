"""Problems: client-stacked data with the mathematics of its clients."""
