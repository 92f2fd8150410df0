"""A run that cannot end within a day is refused before anything is compiled."""

import pytest

from fedjax_admm import InputError
from fedjax_admm.trials import limits


def test_a_run_of_more_than_a_day_is_refused():
    limits.check_time("1000 trials of 500 rounds", 1e9, "take fewer")
    with pytest.raises(InputError, match=r"1e9 trials would take [\d,.]+ (days|years) at least"):
        limits.check_time("1e9 trials", 1e22, "take fewer")
