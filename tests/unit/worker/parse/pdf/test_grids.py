"""Rules that touch each other, directly or by others, are one group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.parse.pdf.grids import _groups
from worker.parse.pdf.rules import NEAR, Rule

PLACES = st.sampled_from([0.0, 2.5, 2.6, 5.0, 10.0, 12.5, 20.0, 40.0])
RULES = st.lists(
    st.tuples(PLACES, PLACES, st.sampled_from([6.0, 7.5, 30.0])).map(lambda rule: (rule[0], rule[1], sum(rule[1:]))),
    max_size=8,
).map(sorted)


def touch(across: Rule, down: Rule) -> bool:
    (y, left, right), (x, bottom, top) = across, down
    return left - NEAR <= x <= right + NEAR and bottom - NEAR <= y <= top + NEAR


@given(RULES, RULES)
def test_groups_are_those_of_rules_compared_one_by_one(across: list[Rule], down: list[Rule]) -> None:
    expected: list[tuple[set[int], set[int]]] = []
    left = set(range(len(down)))
    while left:
        rows: set[int] = set()
        columns = {min(left)}
        for _ in range(len(across) + len(down)):
            rows |= {row for row, rule in enumerate(across) for column in columns if touch(rule, down[column])}
            columns |= {column for column, rule in enumerate(down) for row in rows if touch(across[row], rule)}
        left -= columns
        if rows:
            expected.append((rows, columns))
    assert [(set(group.across), set(group.down)) for group in _groups(across, down)] == expected
