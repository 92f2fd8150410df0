from fedjax_admm.messages._channels import (
    Channel as Channel,
    Identity as Identity,
    Link as Link,
    identity as identity,
)
from fedjax_admm.messages._exchange import (
    ChannelState as ChannelState,
    Exchange as Exchange,
    at_rows as at_rows,
    check_exchange as check_exchange,
    exchange as exchange,
    put_rows as put_rows,
)
from fedjax_admm.messages.aggregators._aggregators import (
    Aggregator as Aggregator,
    Mean as Mean,
    centred_clipping as centred_clipping,
    mean as mean,
    norm_bounding as norm_bounding,
)
from fedjax_admm.messages.aggregators._robust import (
    coordinate_median as coordinate_median,
    geometric_median as geometric_median,
    krum as krum,
    multi_krum as multi_krum,
    trimmed_mean as trimmed_mean,
)
from fedjax_admm.messages.attacks._attacks import (
    Attack as Attack,
    constant_message as constant_message,
    no_attack as no_attack,
    scaled_noise as scaled_noise,
    sign_flip as sign_flip,
    stale_replay as stale_replay,
)
from fedjax_admm.messages.attacks._byzantine import byzantine as byzantine
from fedjax_admm.messages.attacks._collusions import (
    a_little_is_enough as a_little_is_enough,
    inner_product_manipulation as inner_product_manipulation,
    mimic as mimic,
)
from fedjax_admm.messages.compression._compressors import (
    Compressor as Compressor,
    cast as cast,
    natural as natural,
    qsgd as qsgd,
    rand_k as rand_k,
    scaled_sign as scaled_sign,
    top_k as top_k,
)
from fedjax_admm.messages.compression._feedback import (
    differences as differences,
    error_feedback as error_feedback,
)
from fedjax_admm.messages.compression._low_rank import low_rank as low_rank
from fedjax_admm.messages.compression._wire import (
    Flag as Flag,
    Half as Half,
    Known as Known,
    Number as Number,
    Whole as Whole,
    from_bytes as from_bytes,
    to_bytes as to_bytes,
)
from fedjax_admm.messages.delays._delays import Delay as Delay, Prompt as Prompt, prompt as prompt
from fedjax_admm.messages.delays._waits import (
    bounded_delay as bounded_delay,
    fixed_delay as fixed_delay,
    geometric_delay as geometric_delay,
    heavy_tailed_delay as heavy_tailed_delay,
    lossy as lossy,
    replay_delays as replay_delays,
)
