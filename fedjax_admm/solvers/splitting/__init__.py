"""Solvers with one server that keep dual variables: relatives of ADMM and Douglas-Rachford."""
