"""False labels: an attack on the data of some clients, before the first message.

    -1 and 1      y -> -y
    0, ..., C - 1 y -> C - 1 - y;  with two classes 0 and 1 change places
    numbers       y -> -y

Such clients obey the protocol: their messages are true of false data, and no check of the messages
alone finds them.

Reference: B. Biggio, B. Nelson, P. Laskov, "Support Vector Machines Under Adversarial Label Noise",
ACML 2011; V. Tolpegin, S. Truex, M. E. Gursoy, L. Liu, "Data Poisoning Attacks Against Federated
Learning Systems", ESORICS 2020, arXiv:2007.08432.
"""

from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import count, instance, is_concrete, listed, one_line, refuse, typed_key
from fedjax_admm.losses import LassoLoss, LogisticLoss, SquaredLoss, TrainedLoss
from fedjax_admm.messages import byzantine
from fedjax_admm.problems._client_arrays import entry_name
from fedjax_admm.problems._client_data import BucketedData, GeneratedData
from fedjax_admm.problems._consensus import ConsensusRegression
from fedjax_admm.problems._federated_problem import Federated
from fedjax_admm.problems._networked import Networked
from fedjax_admm.problems._robust_regression import RobustRegression

Problem = TypeVar("Problem")
_NAMES = ("label", "labels", "target", "targets", "y")


def flip_labels(
    problem: Problem,
    share: ArrayLike | None = None,
    key: jax.Array | None = None,
    *,
    who: ArrayLike | None = None,
    label: str | int | None = None,
    classes: int | None = None,
) -> tuple[Problem, jax.Array]:
    """Return a problem in which some clients have false labels, and a mask of these clients.

    Run solvers on it, and measure on the honest problem. The truth, the common minimiser of
    consensus regression and held-out samples stay as they are.

    Args:
      problem: consensus regression, robust regression, a networked problem, or a federated one with
        stacked or listed data.
      share: of clients with false labels, in [0, 1): `floor(share n)` of n, drawn uniformly.
      key: a typed key, for a share; with the same key, a larger share only adds clients.
      who: bool, shape (clients,), instead of a share and a key: the clients with false labels.
      label: of a federated problem: the name or the number of the part of a sample that is the
        label; if None, the second of two parts, or the one named "y", "label" or "target".
      classes: number of classes, C. If None, it follows from the labels: whole numbers have the
        largest plus 1, unless some are negative, which change their sign; floats have two classes
        if all are 0 and 1, and else change their sign.

    Returns:
      The problem, and the mask of clients with false labels, bool, shape (clients,).
    """
    kinds = (ConsensusRegression, RobustRegression, Networked, Federated)
    kind = f"a problem with labels, one of {listed(kind.__name__ for kind in kinds)}"
    instance("problem", problem, kinds, kind)
    assert isinstance(problem, kinds)
    senders = byzantine(share, who)
    if share is not None:
        typed_key(key)
    flipped = senders.draw(key, problem.num_clients)
    if classes is not None:
        classes = count("classes", classes, at_least=2)
    if isinstance(problem, Federated):
        return problem.with_data(_with_data(problem.data, flipped, label, classes)), flipped
    told = "is for federated problems, but the labels of this problem are its targets"
    refuse(label is not None, "label", told)
    if isinstance(problem, Networked):
        return replace(problem, local=_with_loss(problem.local, flipped, classes)), flipped
    return replace(problem, targets=_flipped([problem.targets], [flipped], classes)[0]), flipped


def _flipped(
    labels: list[jax.Array], flipped: list[jax.Array], classes: int | None
) -> list[jax.Array]:
    """Return arrays of labels (clients, samples, ...) with those of some clients flipped.

    The classes follow from all arrays together.
    """
    if labels[0].dtype == bool:
        false = [~part for part in labels]
    else:
        sum_of_both = _sum_of_both(labels, classes)
        false = [sum_of_both - part for part in labels]
    return [
        jnp.where(jnp.expand_dims(here, range(1, part.ndim)), other, part)
        for part, other, here in zip(labels, false, flipped, strict=True)
    ]


def _sum_of_both(labels: list[jax.Array], classes: int | None) -> int:
    """Return what a label and its false one add up to: C - 1, or 0."""
    if classes is not None:
        return classes - 1
    whole = jnp.issubdtype(labels[0].dtype, jnp.integer)
    if not is_concrete(labels):
        refuse(whole, "classes", "must be given where labels are whole numbers and traced")
        return 0
    values = np.unique(np.concatenate([np.asarray(part).ravel() for part in labels]))
    if whole:
        return max(int(values.max()), 1) if values.min() >= 0 else 0
    return int(np.all(np.isin(values, (0, 1))))


def _with_loss(loss: Any, flipped: jax.Array, classes: int | None) -> Any:
    """Return the losses of a network with other targets."""
    if isinstance(loss, LassoLoss):
        return replace(loss, smooth=_with_loss(loss.smooth, flipped, classes))
    instance("problem.local", loss, (SquaredLoss, LogisticLoss, TrainedLoss), "a loss with labels")
    (targets,) = _flipped([loss.targets], [flipped], classes)
    if isinstance(loss, SquaredLoss):
        return loss.with_targets(targets)
    return replace(loss, targets=targets)


def _with_data(data: Any, flipped: jax.Array, label: Any, classes: int | None) -> Any:
    """Return the samples of clients with other labels."""
    told, remedy = "must hold its samples", "let the function that makes them flip labels"
    refuse(isinstance(data, GeneratedData), "problem", told, remedy=remedy)
    parts = data.buckets if isinstance(data, BucketedData) else (data,)
    place = _label_place(parts[0].samples, label)
    leaves = [jax.tree.leaves(part.samples) for part in parts]
    labels = _flipped(
        [mine[place] for mine in leaves], [flipped[p.numbers] for p in parts], classes
    )
    structure = jax.tree.structure(parts[0].samples)
    for mine, new in zip(leaves, labels, strict=True):
        mine[place] = new
    changed = tuple(
        replace(part, samples=jax.tree.unflatten(structure, mine))
        for part, mine in zip(parts, leaves, strict=True)
    )
    return replace(data, buckets=changed) if isinstance(data, BucketedData) else changed[0]


def _label_place(samples: Any, label: Any) -> int:
    """Return which leaf of the samples is the label."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(samples)]
    names = [entry_name(path) for path in paths]
    usual = (*_NAMES, 1) if set(names) == {0, 1} else _NAMES
    places = [i for i, name in enumerate(names) if name in (usual if label is None else (label,))]
    told = f"must say which part of a sample is its label, one of {one_line(names)}"
    refuse(len(places) != 1, "label", told, label)
    return places[0]
