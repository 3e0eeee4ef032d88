"""Fits the weights of ranking to all groups of questions, and judges the fit by groups that it has not seen.

For each group, the weights are fitted on all others, and the change is measured on it. The fit searches along one
weight at a time, and pays for the square of each change, relative to the weight: a small gain moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from tests.bench.search.fit.groups import Group
from tests.bench.search.fit.prepared import Prepared, found_with, own_weights, prepared
from tests.bench.search.measures import MEASURES
from tests.bench.search.recorded import Recording
from tests.bench.search.trees.coverage import Mean, difference, mean

#: Changes of a weight that are tried, relative to its scale.
STEPS = (-0.5, -0.25, 0.25, 0.5)
#: The least scale of a weight.
MIN_SCALE = 0.1
#: What a change of a weight by its whole scale costs, in the measure.
PULL = 0.002
#: Questions of each group that are read: all of them would take an hour.
READ = 60
#: Weights that no question of the groups can tell anything about.
UNASKED = frozenset({"near_path", "near_symbol", "own_symbol"})

#: Changes of weights, by their names.
Changes = dict[str, float]


@dataclass(slots=True)
class Measured:
    """The questions of all groups, and their measures by the changes that were tried."""

    questions: Mapping[str, Sequence[Prepared]]
    measures: Mapping[str, str]
    _known: dict[tuple[str, tuple[tuple[str, float], ...]], list[float]] = field(default_factory=dict)

    def values(self, group: str, changes: Changes) -> list[float]:
        """The measure of each question of a group with changed weights."""
        key = group, tuple(sorted((name, value) for name, value in changes.items() if value))
        if key not in self._known:
            weights = own_weights()
            for name, value in changes.items():
                weights[name] += value * scale(name)
            measure = MEASURES[self.measures[group]]
            self._known[key] = [measure(found_with(each, weights)) for each in self.questions[group]]
        return self._known[key]

    def objective(self, groups: Iterable[str], changes: Changes) -> float:
        """The mean over kinds of groups, each the mean over its groups, less what the changes cost."""
        by_kind: dict[str, list[float]] = {}
        for group in groups:
            by_kind.setdefault(kind_of(group), []).append(fmean(self.values(group, changes)))
        return fmean(map(fmean, by_kind.values())) - PULL * sum(value * value for value in changes.values())


def run(groups: Mapping[str, Group], recordings: Mapping[str, Recording]) -> None:
    """Print the weights fitted to all groups, and for each group the change by weights fitted to the others."""
    questions = {name: prepared(replace(each, recorded=each.recorded[:READ])) for name, each in recordings.items()}
    measured = Measured(questions, {name: each.measure for name, each in groups.items()})
    print("fitted to all:", shown(fitted(measured, list(questions))), flush=True)
    changes: dict[str, Mean] = {}
    for group in questions:
        fit = fitted(measured, [name for name in questions if name != group])
        changes[group] = difference(measured.values(group, fit), measured.values(group, {}))
        own = fmean(measured.values(group, {}))
        print(
            f"{group:22}{own:8.3f}{changes[group].value:+8.4f}{2 * changes[group].error:8.4f}  {shown(fit)}", flush=True
        )
    over_groups = mean([each.value for each in changes.values()])
    worst = min(changes, key=lambda name: changes[name].value)
    print(
        f"held out: {over_groups.value:+.4f} ± {2 * over_groups.error:.4f}, worst {worst} {changes[worst].value:+.4f}"
    )
    lost = [name for name, each in changes.items() if each.value < -each.error]
    print("lost more than one standard error:", ", ".join(lost) or "none", flush=True)


def fitted(measured: Measured, groups: Sequence[str]) -> Changes:
    """The changes that raise the objective over groups: the best step of each weight, those that gain most first."""
    start = measured.objective(groups, {})
    gains = {
        (name, step): measured.objective(groups, {name: step}) - start
        for name in own_weights()
        if name not in UNASKED
        for step in STEPS
    }
    best = {name: max(STEPS, key=lambda step: gains[name, step]) for name, _ in gains}
    changes: Changes = {}
    reached = start
    for name in sorted(best, key=lambda name: -gains[name, best[name]]):
        if gains[name, best[name]] <= 0:
            break
        tried = {**changes, name: best[name]}
        if (value := measured.objective(groups, tried)) > reached:
            changes, reached = tried, value
    return changes


def scale(name: str) -> float:
    """By how much a weight changes in one step."""
    return max(abs(own_weights()[name]), MIN_SCALE)


def kind_of(group: str) -> str:
    """What a group has in common with others, that would outweigh it by their number."""
    return group.partition(":")[0]


def shown(changes: Changes) -> str:
    """The changed weights as they become."""
    own = own_weights()
    return ", ".join(f"{name} {own[name] + value * scale(name):g}" for name, value in changes.items()) or "no change"
