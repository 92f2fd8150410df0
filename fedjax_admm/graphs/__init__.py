"""Graphs of nodes: who compares models with whom, and how strongly.

    from_edges(4, [(0, 1), (1, 2), (2, 3)], [1.0, 0.1, 1.0])    weighted edges
    from_matrix, from_networkx, read_edges                      what you have
    chain(4), star(4), grid(2, 3)                               fixed shapes
    stochastic_block_model, erdos_renyi, connected_graph        drawn, also inside jit and vmap
    nearest_neighbours, threshold, gaussian_wasserstein         nodes that are alike
    components, is_connected, check_connected                   who can be reached from whom
    metropolis_weights                                          how nodes average with neighbours
    pad, stack                                                  graphs for `jax.vmap`

An edge of weight zero counts as absent: it adds to no degree. Edge lists of graphs
that are stacked for `jax.vmap` are therefore filled up with edges of weight zero.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
