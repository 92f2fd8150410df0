from fedjax_admm.deploy._asking import Children as Children, Round as Round
from fedjax_admm.deploy._files import Record as Record
from fedjax_admm.deploy._graph import Node as Node, Relay as Relay
from fedjax_admm.deploy._messages import MessageError as MessageError
from fedjax_admm.deploy._rounds import (
    Rounds as Rounds,
    called as called,
    in_process as in_process,
)
from fedjax_admm.deploy._site import Site as Site
from fedjax_admm.deploy._star import Client as Client, Server as Server
from fedjax_admm.deploy._study import Study as Study
from fedjax_admm.deploy._tree import (
    Middle as Middle,
    TreeClient as TreeClient,
    TreeServer as TreeServer,
)
