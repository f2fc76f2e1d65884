"""Fit a model of each objective over the whole space to the computed points, and split its variance by parameter.

The model of an objective (of its logarithm if all values are positive) is a mean, plus a function of every parameter,
plus a function of every pair of parameters. Each function has mean zero over the values of each of its parameters,
where all values of the grid count equally. The variances of the functions therefore add up to that of the model
(functional analysis of variance: Hoeffding 1948, Sobol' 1993). The Shapley effect of a parameter is the variance of its
own function plus half the variance of each of its pairs (Owen 2014, "Sobol' indices and Shapley value", equation 2.7
for terms of one and two parameters).

The functions are sums of cosines over the indices of the values, which are orthogonal on the grid. For numeric
parameters the amplitudes fall with the frequency, as in a Brownian path, so that neighbouring values have similar
effects. For parameters whose values are words they do not. The coefficients minimise the squared error plus a penalty.
Tenfold cross-validation chooses the size of the penalty and the weights of parameters and pairs. Means are taken over
the grid, so the points that a search preferred do not bias them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Float64Array

Whole = NDArray[np.int64]

FOLDS = 10
MOST_FEATURES = 240
MOST_WAVES = 12
ROUNDS = 3
CHUNK = 4096
PENALTIES = tuple(10.0**power for power in range(-8, 1))
PAIR_WEIGHTS = (0.1, 0.3, 1.0)
LEAST_WEIGHT = 0.05
LEAST_ROOM = 0.5
"""Minimum features per pair of parameters for pairs to be modelled.

With it, the model has at most three times `MOST_FEATURES` features.
"""

FREE = 100.0
"""Weight of the constant feature, so large that the penalty has no effect on the mean."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter in the model: its number of values, and whether neighbouring values have similar effects.

    groups: indices of values whose effects are averaged; if empty, each value is reported separately.
    """

    levels: int
    ordered: bool
    groups: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """The fitted model of one objective.

    explained:  share of the variance of held-out points that the model predicts, 0 to 1 (cross-validated).
    shares:     Shapley effect of every parameter as a share of the variance; they add up to `explained`.
    alone:      the part of each share that is due to the parameter alone, without its pairs.
    share_errors: standard errors of the shares, by the jackknife over ten groups of points.
    means:      for every parameter, the mean over the grid at each of its values or groups of values; the geometric
                mean if the model is of the logarithm.
    lows, highs: means minus and plus two standard errors.
    """

    explained: float
    shares: Float64Array
    alone: Float64Array
    share_errors: Float64Array
    means: list[Float64Array]
    lows: list[Float64Array]
    highs: list[Float64Array]


class _Parts(NamedTuple):
    """The parts of a fitted model: Shapley effects, variances of the parameters alone, effects by value."""

    shapley: Float64Array
    alone: Float64Array
    mean: float
    effects: list[Float64Array]


def responses(axes: Sequence[Axis], places: Whole, objectives: Float64Array) -> list[Response]:
    """Return the fitted model of every objective.

    axes:       the parameters.
    places:     index of the parameter's value at each point, of shape points x parameters.
    objectives: values of shape points x objectives.
    """
    basis = _Basis(axes)
    positive: NDArray[np.bool_] = np.all(objectives > 0, axis=0)
    heights = np.where(positive, np.log(np.where(positive, objectives, 1.0)), objectives)
    middle, scale = heights.mean(axis=0), heights.std(axis=0)
    # Values that differ by rounding only have no variance to explain.
    flat = scale <= 1e-12 * np.maximum(np.abs(middle), 1.0)
    scale = np.where(flat, 1.0, scale)
    with threadpool_limits(1, "blas"):  # small matrices: threads would cost more than they gain
        sums = _sums(basis, places, np.where(flat, 0.0, (heights - middle) / scale))
        fitted = [_fitted(basis, sums, at, bool(flat[at])) for at in range(objectives.shape[1])]
    return [
        _response(fits, explained, float(middle[at]), float(scale[at]), bool(positive[at]))
        for at, (explained, fits) in enumerate(fitted)
    ]


def _fitted(basis: _Basis, sums: _Sums, at: int, flat: bool) -> tuple[float, list[_Parts]]:
    """Return the explained share of an objective, and its model of all points, then without each group of points."""
    explained, weights, penalty = (0.0, basis.weights(), 1.0) if flat else _chosen(basis, sums, at)
    groups = (None, *range(sums.folds))
    return explained, [basis.parts(_solved(sums.without(fold), at, weights, penalty)) for fold in groups]


class _Basis:
    """The features of the model: a constant, cosines along every parameter, products of the first cosines of a pair."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = axes
        count = len(axes)
        self.pairs = list(combinations(range(count), 2))
        most = min(MOST_WAVES, max(1, MOST_FEATURES // max(count, 1)))
        waves = [min(axis.levels - 1, most) for axis in axes]
        self.waves = [_waves(axis, count) for axis, count in zip(axes, waves, strict=True)]
        room = max(0.0, MOST_FEATURES - sum(waves)) / max(len(self.pairs), 1)
        most = int(room**0.5) or int(room >= LEAST_ROOM)
        self.paired = [min(count, most) for count in waves] if most else []
        widths = [self.paired[i] * self.paired[j] for i, j in self.pairs] if most else []
        self.ends = np.cumsum([1, *waves, *widths]).tolist()
        self.told = [_grouped(axis, wave) for axis, wave in zip(axes, self.waves, strict=True)]

    @property
    def size(self) -> int:
        """Return the number of features."""
        return int(self.ends[-1])

    def _spans(self) -> list[slice]:
        """Return the slices of the features of every parameter, then of every pair."""
        return [slice(begin, end) for begin, end in pairwise(self.ends)]

    def features(self, places: Whole) -> Float64Array:
        """Return the features of points, of shape points x features."""
        along = [waves[places[:, at]] for at, waves in enumerate(self.waves)]
        blocks = [np.ones((len(places), 1)), *along]
        if self.paired:
            for i, j in self.pairs:
                product = along[i][:, : self.paired[i], None] * along[j][:, None, : self.paired[j]]
                blocks.append(product.reshape(len(places), -1))
        return np.concatenate(blocks, axis=1)

    def weights(self, relevance: Float64Array | None = None, pair: float = 1.0) -> Float64Array:
        """Return the weight of each feature, the inverse square root of its penalty."""
        of = np.ones(len(self.axes)) if relevance is None else relevance
        damping = [_damping(axis, waves.shape[1]) for axis, waves in zip(self.axes, self.waves, strict=True)]
        blocks = [np.array([FREE]), *(weight * weights for weight, weights in zip(of, damping, strict=True))]
        if self.paired:
            for i, j in self.pairs:
                product = damping[i][: self.paired[i], None] * damping[j][None, : self.paired[j]]
                blocks.append(pair * of[i] * of[j] * product.ravel())
        return np.concatenate(blocks)

    def parts(self, coefficients: Float64Array) -> _Parts:
        """Return the parts of the model with these coefficients.

        On the grid the mean square of every feature is 1, and the mean product of two features is 0. Variances are
        therefore sums of squared coefficients.
        """
        count = len(self.axes)
        spans = self._spans()
        alone = np.array([(coefficients[span] ** 2).sum() for span in spans[:count]])
        shapley = alone.copy()
        for (i, j), span in zip(self.pairs, spans[count:], strict=False):
            half = (coefficients[span] ** 2).sum() / 2
            shapley[i] += half
            shapley[j] += half
        effects = [matrix @ coefficients[span] for matrix, span in zip(self.told, spans, strict=False)]
        return _Parts(shapley, alone, float(coefficients[0]), effects)


def _waves(axis: Axis, count: int) -> Float64Array:
    """Return the cosines of the discrete cosine transform, of shape values x waves.

    Each has mean 0 and mean square 1; the mean product of two is 0.
    """
    places = (np.arange(axis.levels) + 0.5) / max(axis.levels, 1)
    waves: Float64Array = np.sqrt(2.0) * np.cos(np.pi * places[:, None] * np.arange(1, count + 1)[None, :])
    return waves


def _grouped(axis: Axis, waves: Float64Array) -> Float64Array:
    """Return the means of the waves over each group of values, of shape groups x waves."""
    if not axis.groups:
        return waves
    return np.array([waves[list(group)].mean(axis=0) for group in axis.groups])


def _damping(axis: Axis, count: int) -> Float64Array:
    """Return the amplitudes of the waves: 1 / number as in a Brownian path for ordered values, else 1."""
    return 1.0 / np.arange(1, count + 1) if axis.ordered else np.ones(count)


@dataclass(frozen=True, slots=True)
class _Sums:
    """The sums over points that least squares needs, by group of points.

    gram:   products of two features.
    cross:  products of a feature and an objective.
    square: squared objectives.
    counts: numbers of points.
    """

    gram: Float64Array
    cross: Float64Array
    square: Float64Array
    counts: Float64Array

    @property
    def folds(self) -> int:
        return len(self.counts)

    def without(self, fold: int | None) -> _Sums:
        """Return the sums over all points, or over all but those of a group."""
        parts = (self.gram, self.cross, self.square, self.counts)
        return _Sums(*(sums.sum(axis=0) - (0 if fold is None else sums[fold]) for sums in parts))


def _sums(basis: _Basis, places: Whole, heights: Float64Array) -> _Sums:
    """Return the sums over every group of points; a fixed seed assigns the points to groups."""
    folds = min(FOLDS, len(places))
    group = np.random.default_rng(0).permutation(np.arange(len(places)) % folds)
    size, columns = basis.size, heights.shape[1]
    gram, cross = np.zeros((folds, size, size)), np.zeros((folds, size, columns))
    square, counts = np.zeros((folds, columns)), np.zeros(folds)
    for fold in range(folds):
        for chunk in _chunks(np.flatnonzero(group == fold)):
            features = basis.features(places[chunk])
            gram[fold] += features.T @ features
            cross[fold] += features.T @ heights[chunk]
            square[fold] += (heights[chunk] ** 2).sum(axis=0)
            counts[fold] += len(chunk)
    return _Sums(gram, cross, square, counts)


def _chunks(points: Whole) -> Iterator[Whole]:
    return (points[at : at + CHUNK] for at in range(0, len(points), CHUNK))


def _solved(sums: _Sums, at: int, weights: Float64Array, penalty: float) -> Float64Array:
    """Return the coefficients by least squares with a penalty on the squares of coefficient / weight."""
    scaled = sums.gram * weights[:, None] * weights[None, :]
    scaled[np.diag_indices_from(scaled)] += penalty * float(sums.counts)
    solved: Float64Array = np.linalg.solve(scaled, weights * sums.cross[:, at]) * weights
    return solved


def _chosen(basis: _Basis, sums: _Sums, at: int) -> tuple[float, Float64Array, float]:
    """Return the largest explained share of held-out points, with its weights and its penalty.

    A parameter with a larger effect gets a larger weight in the next round (automatic relevance determination).
    """
    relevance = np.ones(len(basis.axes))
    best: _Choice | None = None
    for _ in range(ROUNDS):
        pairs = PAIR_WEIGHTS if best is None else (best.pair,)
        tried = max((_validated(basis, sums, at, relevance, pair) for pair in pairs), key=_explained)
        if best is not None and tried.explained <= best.explained:
            break
        best = tried
        shapley = basis.parts(_solved(sums.without(None), at, best.weights, best.penalty)).shapley
        relevance = np.sqrt(shapley / max(shapley.max(), 1e-300)).clip(LEAST_WEIGHT)
    assert best is not None
    return max(0.0, best.explained), best.weights, best.penalty


class _Choice(NamedTuple):
    """Weights of the features and a penalty, with the explained share of the variance of held-out points."""

    explained: float
    pair: float
    weights: Float64Array
    penalty: float


def _explained(choice: _Choice) -> float:
    return choice.explained


def _validated(basis: _Basis, sums: _Sums, at: int, relevance: Float64Array, pair: float) -> _Choice:
    """Return the weights of a relevance and a pair weight, with the penalty of least cross-validation error."""
    weights = basis.weights(relevance, pair)
    errors = np.zeros(len(PENALTIES))
    for fold in range(sums.folds):
        rest = sums.without(fold)
        values, vectors = np.linalg.eigh(rest.gram * weights[:, None] * weights[None, :])
        turned = vectors.T @ (weights * rest.cross[:, at])
        inverse = 1.0 / (np.maximum(values, 0.0) + np.array(PENALTIES)[:, None] * float(rest.counts))
        solved = (turned * inverse) @ vectors.T * weights  # penalties x features
        missed = sums.square[fold, at] - 2 * solved @ sums.cross[fold, :, at]
        missed += ((solved @ sums.gram[fold]) * solved).sum(axis=1)
        errors += np.maximum(missed, 0.0)
    least = int(errors.argmin())
    # Heights have mean 0: their square is their variance.
    explained = 1.0 - float(errors[least]) / float(sums.square[:, at].sum())
    return _Choice(explained, pair, weights, PENALTIES[least])


def _response(fits: list[_Parts], explained: float, middle: float, scale: float, logarithm: bool) -> Response:
    """Return the response from the model of all points, with errors from the models that leave out one group each."""

    def turn(height: Float64Array) -> Float64Array:
        return np.exp(height) if logarithm else height

    shares = [fit.shapley * explained / (fit.shapley.sum() or 1.0) for fit in fits]
    whole = fits[0]
    heights = [[middle + scale * (fit.mean + effect) for effect in fit.effects] for fit in fits]
    errors = [_jackknife(list(folds)) for folds in zip(*heights[1:], strict=True)]
    means = heights[0]
    return Response(
        explained,
        shares[0],
        whole.alone * explained / (whole.shapley.sum() or 1.0),
        _jackknife(shares[1:]),
        [turn(mean) for mean in means],
        [turn(mean - 2 * error) for mean, error in zip(means, errors, strict=True)],
        [turn(mean + 2 * error) for mean, error in zip(means, errors, strict=True)],
    )


def _jackknife(left_out: Sequence[Float64Array]) -> Float64Array:
    """Return the jackknife standard error of estimates that each leave out one of g groups.

    It is sqrt((g - 1) / g * sum (x - mean)^2).
    """
    groups = np.array(left_out)
    deviations = groups - groups.mean(axis=0)
    errors: Float64Array = np.sqrt((len(groups) - 1) / len(groups) * (deviations**2).sum(axis=0))
    return errors
