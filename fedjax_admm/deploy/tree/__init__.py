"""The nodes of a tree on machines of their own: the root, clients, and middle nodes.

Nodes are numbered as the columns of participation masks are: the clients, then the servers level by
level, without the root. Time counts passes; one work of a child of the root is a round, and one of
another node is a pass. A node's message to its parent holds its upload, and which nodes below it
have been heard in the passes of this work.

A middle node is a server of its children and a client of its parent:

    work(data):  reads the parent's model
                 in every pass:  its children work on its model of before the pass;
                                 servers(level, nodes, received, above)
                 returns the upload

A parent that closes a round, or a pass, without a node makes it take its work back, and so do the
nodes below it: the first message of the next work names the state from which they go on. A node
therefore keeps the state of the last work that its parent has heard, and that of the beginning of
the round.
"""
