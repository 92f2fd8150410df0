from fedjax_admm.graphs._components import (
    check_connected as check_connected,
    components as components,
    is_connected as is_connected,
)
from fedjax_admm.graphs._distances import (
    gaussian_wasserstein as gaussian_wasserstein,
    gaussian_wasserstein_from_moments as gaussian_wasserstein_from_moments,
    nearest_neighbours as nearest_neighbours,
    nearest_neighbours_of_points as nearest_neighbours_of_points,
    threshold as threshold,
)
from fedjax_admm.graphs._files import (
    from_networkx as from_networkx,
    read_edges as read_edges,
)
from fedjax_admm.graphs._graph import (
    Graph as Graph,
    chain as chain,
    from_edges as from_edges,
    from_matrix as from_matrix,
    grid as grid,
    pad as pad,
    stack as stack,
    star as star,
)
from fedjax_admm.graphs._mixing import metropolis_weights as metropolis_weights
from fedjax_admm.graphs._random import (
    block_labels as block_labels,
    connected_graph as connected_graph,
    erdos_renyi as erdos_renyi,
    stochastic_block_model as stochastic_block_model,
)
