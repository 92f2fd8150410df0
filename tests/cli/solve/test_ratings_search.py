"""The search of beta: which values are run, how far, and that it finds what a whole grid finds."""

import numpy as np
import pytest

from fedjax_admm.trials.solve.ratings._search import search, stages

# Validation errors of eight betas after 60, 150 and 400 rounds, seed 2025: MovieLens 100K, two
# synthetic tables of its shape, and one of that of MovieLens 1M.
MEASURED = {
    "ml-100k": [
        [0.9379, 0.9278, 0.9141, 0.9145, 0.9302, 0.9318, 0.9323, 0.9328],
        [0.9731, 0.9460, 0.9071, 0.8669, 0.8749, 0.9211, 0.9299, 0.9313],
        [0.9944, 0.9654, 0.8767, 0.8334, 0.8379, 0.8568, 0.9009, 0.9280],
    ],
    "synthetic 3": [
        [0.9561, 0.9449, 0.9326, 0.9283, 0.9395, 0.9418, 0.9428, 0.9433],
        [0.9989, 0.9738, 0.9281, 0.8881, 0.8967, 0.9330, 0.9400, 0.9413],
        [1.0465, 0.9788, 0.9113, 0.8599, 0.8631, 0.8835, 0.9186, 0.9379],
    ],
    "synthetic 4": [
        [0.9558, 0.9483, 0.9370, 0.9330, 0.9367, 0.9383, 0.9394, 0.9401],
        [0.9900, 0.9613, 0.9282, 0.8888, 0.8997, 0.9315, 0.9363, 0.9377],
        [1.0631, 0.9997, 0.9132, 0.8696, 0.8690, 0.8861, 0.9206, 0.9349],
    ],
    "synthetic, 1M": [
        [0.8962, 0.9001, 0.9237, 0.9419, 0.9445, 0.9457, 0.9466, 0.9470],
        [0.8585, 0.8469, 0.8608, 0.8908, 0.9284, 0.9413, 0.9435, 0.9444],
        [0.8371, 0.8159, 0.8258, 0.8453, 0.8652, 0.8964, 0.9324, 0.9424],
    ],
}
ROUNDS = [60, 150, 400]


class Table:
    """Tells errors from a table, and counts rounds."""

    def __init__(self, errors):
        self.errors, self.done = np.array(errors), {}

    def __call__(self, places, rounds):
        assert all(self.done.get(place, 0) < rounds for place in places)
        self.done.update(dict.fromkeys(places, rounds))
        return [self.errors[ROUNDS.index(rounds)][place] for place in places]


@pytest.mark.parametrize("name", MEASURED)
def test_it_finds_the_best_value_of_the_whole_grid_in_less_than_half_of_its_rounds(name):
    table = Table(MEASURED[name])
    trials = search(8, ROUNDS, table)
    assert trials.best(400)[0] == np.argmin(MEASURED[name][-1])
    assert sum(table.done.values()) < 8 * 400 / 2
    assert dict(zip(range(8), trials.rounds, strict=True)) == {
        place: table.done.get(place, 0) for place in range(8)
    }


@pytest.mark.parametrize("best", range(8))
def test_the_bottom_of_a_valley_is_found_wherever_it_is(best):
    valley = [[abs(place - best) + 0.1 * (place < best) for place in range(8)]] * 3
    assert search(8, ROUNDS, Table(valley)).best(400)[0] == best


def test_values_that_fail_are_left_and_others_are_looked_at():
    failing = [[np.nan, np.nan, 3.0, np.inf, 2.0, np.inf, 1.0, np.nan]] * 3
    assert search(8, ROUNDS, Table(failing)).best(400)[0] == 6
    assert not search(8, ROUNDS, Table([[np.nan] * 8] * 3)).best(400)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_few_values_are_searched(number):
    table = Table([list(range(number))] * 3)
    assert search(number, ROUNDS, table).best(400)[0] == 0


@pytest.mark.parametrize(
    ("rounds", "every", "wanted"),
    [(400, 20, [60, 160, 400]), (40, 2, [6, 16, 40]), (7, 7, [7]), (1, 1, [1]), (3, 1, [1, 3])],
)
def test_values_are_compared_where_records_are(rounds, every, wanted):
    assert stages(rounds, every) == wanted
