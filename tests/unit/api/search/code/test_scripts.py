"""What a file of scripts imports and exports is read in time linear in it."""

from __future__ import annotations

import pytest

from api.search.code.scripts import read_scripts
from tests.pumps import grows_too_fast


@pytest.mark.parametrize(
    ("begin", "part", "end"),
    [
        ("x,", " ", "!"),
        ("module.exports = function", " ", "!"),
        ("export default function", " ", "!"),
        ("export default async", " ", "!"),
        ("", "module.exports={", ""),
        ("", "exports.a=", ""),
        ("", "const {a,", ""),
    ],
)
def test_the_time_is_linear_in_the_text(begin: str, part: str, end: str) -> None:
    def text(size: int) -> str:
        return begin + part * (size // len(part)) + end

    assert not grows_too_fast(lambda code: read_scripts(code, code), text, 20_000)


@pytest.mark.parametrize(
    ("code", "exports"),
    [
        ("export default function gen() {}", {"default": "gen"}),
        ("export default function* gen() {}", {"default": "gen"}),
        ("export default async function *gen() {}", {"default": "gen"}),
        ("export default class Box {}", {"default": "Box"}),
        ("export default functions", {"default": "functions"}),
        ("module.exports = function * gen() {}", {"default": "gen"}),
        ("module.exports = functions", {"default": "functions"}),
        ("module.exports = { a, b: c }", {"a": "a", "b": "c"}),
        ("if (x) { module.exports = { a } } else { module.exports = { b } }", {"a": "a", "b": "b"}),
    ],
)
def test_what_a_script_exports(code: str, exports: dict[str, str]) -> None:
    assert read_scripts(code, code).exports == {alias: [name] for alias, name in exports.items()}


def test_what_follows_a_comma_is_required_too() -> None:
    text = "const a = require('./a'), b = require('./b'),\n  c = require('./c')\n"
    assert set(read_scripts(text, text).named) == {"a", "b", "c"}
