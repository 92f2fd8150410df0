from fedjax_admm.deploy._asking import Round as Round
from fedjax_admm.deploy._client import Client as Client
from fedjax_admm.deploy._in_process import called as called, in_process as in_process
from fedjax_admm.deploy._messages import MessageError as MessageError
from fedjax_admm.deploy._record import Record as Record
from fedjax_admm.deploy._rounds import Rounds as Rounds
from fedjax_admm.deploy._server import Server as Server
from fedjax_admm.deploy._site import Site as Site
from fedjax_admm.deploy._study import Study as Study
from fedjax_admm.deploy.graph._node import Node as Node
from fedjax_admm.deploy.graph._relay import Relay as Relay
from fedjax_admm.deploy.tree._clients import TreeClient as TreeClient
from fedjax_admm.deploy.tree._middle import Children as Children, Middle as Middle
from fedjax_admm.deploy.tree._servers import TreeServer as TreeServer
