from fedjax_admm.messages._attacks import Attack as Attack, Honest as Honest
from fedjax_admm.messages._channels import (
    Channel as Channel,
    Identity as Identity,
    identity as identity,
)
from fedjax_admm.messages._exchange import (
    Box as Box,
    Delivery as Delivery,
    Exchange as Exchange,
    at_rows as at_rows,
    check_exchange as check_exchange,
    exchange as exchange,
    put_rows as put_rows,
)
