"""Calls between modules of JavaScript and TypeScript of both kinds, and between scripts that are no modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.local.test_callers import sure
from tests.integration.local.test_symbols import index_texts
from tests.service import TOOLS, Service

RESOLVED = ("resolved", 1)
LIKELY = ("likely", 1)

MODULES = {
    "es/button.ts": "export default function Button(text: string) { return text }\nexport function small() {}\n",
    "es/panel.ts": "class Panel { open() {} }\nexport { Panel as default, Panel as Board }\n",
    "es/wrapped.tsx": "function Inner() { return 1 }\nexport default memo(Inner)\n",
    "es/index.ts": """
export { default } from './button'
export { default as Push } from './button'
export { small as tiny } from './button'
""",
    "es/use.tsx": """
import Knob from './button'
import Board from './panel'
import Wrapped from './wrapped'
import { Push, tiny } from '.'
import { Board as Plank } from './panel'
export function byDefault() { return Knob('a') }
export function opened() { const b = new Board(); b.open() }
export function wrapped() { return <Wrapped /> }
export function barrelled() { Push('b') }
export function aliased() { tiny() }
export function named() { new Plank().open() }
export function shadowed(Knob: () => void) { Knob() }
""",
    "web/deep/page.js": "import Main from '../../es'\nexport const page = () => Main('c')\n",
    "cjs/send.js": """
function send(text) { return text }
module.exports = send
""",
    "cjs/tools.js": """
exports.trim = function (text) { return text }
function pad(text) { return text }
exports.fill = pad
function hidden() {}
""",
    "cjs/shapes.js": """
class Circle { area() { return 1 } }
function round(x) { return x }
module.exports = { Circle, nearest: round, inner: { round: 1 } }
""",
    "cjs/app.js": """
var app = module.exports = {}
app.use = function use(f) { return this.set('use', f) }
app.set = function set(k, v) { return k }
""",
    "cjs/use.js": """
const post = require('./send')
const tools = require('./tools'), other = require('./send')
const { fill, trim: cut } = require('./tools')
const { Circle, nearest } = require('./shapes')
const app = require('./app')
const use = require('./app').use
function whole() { post('a') }
function second() { other('b') }
function members() { tools.trim('c'); tools.fill('d') }
function taken() { fill('e'); cut('f') }
function shaped() { return new Circle().area() }
function renamed() { return nearest(1) }
function started() { app.use(1) }
function bare() { use(2) }
""",
    "cjs/again.js": "module.exports = require('./send')\n",
    "cjs/far.js": "const deliver = require('./again')\nfunction far() { deliver('z') }\n",
    "plain/one.js": """
function greet() { return 1 }
function Cat() {}
Cat.prototype.purr = function () { return this.nap() }
Cat.prototype.nap = function () {}
function purr() {}
""",
    "plain/two.js": "function start() { greet() }\nfunction still() { purr() }\n",
    "own/router.js": "export function next() {}\napp.get('/', function (req, next) { next() })\n",
    "own/items.js": """
function go() {}
function unnamed(items) { items.forEach(function (go) { go() }) }
function caught() { try { x() } catch (go) { go() } }
function passed() { send(go); return go() }
module.exports = { go }
""",
    "own/typed.ts": """
export function go() {}
export function arrow(xs: any[]) { return xs.map((go: Fn) => go()) }
export function second(f: Fn) { let a = 1, go = f; go() }
export function nested(x: any) { const { a: { go } } = x; go() }
""",
    "circle/a.ts": "export * from './b'\n",
    "circle/b.ts": "export * from './a'\nexport * from './c'\n",
    "circle/c.ts": "export function round1() {}\nexport function round2() {}\n",
    "circle/use.ts": """
import { round1 } from './a'
import { round2 } from './b'
export function fromA() { round1() }
export function fromB() { round2() }
""",
    "circle/use_too.ts": """
import { round1 } from './b'
import { round2 } from './a'
export function tooFromB() { round1() }
export function tooFromA() { round2() }
""",
    **{f"far/m{number}.ts": f"export * from './m{number + 1}'\n" for number in range(12)},
    "far/m12.ts": "export function deep() {}\n",
    "far/use0.ts": "import { deep } from './m0'\nexport function far() { deep() }\n",
    "far/use8.ts": "import { deep } from './m8'\nexport function near() { deep() }\n",
    "branch/index.js": """
if (process.env.X) {
  module.exports = require('./prod')
} else {
  module.exports = require('./dev')
}
""",
    "branch/prod.js": "function begin() {}\nmodule.exports = begin\nmodule.exports.log = function log() {}\n",
    "branch/dev.js": "function commence() {}\nmodule.exports = commence\nmodule.exports.log = function log() {}\n",
    "branch/mixed.js": "function halt() {}\nif (x) module.exports = halt\nelse module.exports = require('./prod')\n",
    "branch/runs.js": "function one() {}\nfunction two() {}\nif (x) exports.run = one\nelse exports.run = two\n",
    "branch/wide.js": "exports.part = function () {}\n",
    "branch/tall.js": "exports.part = function () {}\n",
    "branch/use.js": """
const begun = require('./index')
const mixed = require('./mixed')
const { run } = require('./runs')
const { log } = require('./index')
function branched() { begun() }
function eitherOne() { mixed() }
function ran() { run() }
function logged() { log() }
""",
    "branch/inner.js": """
function inWide() { const part = require('./wide').part; part() }
function inTall() { const part = require('./tall').part; part() }
""",
    "branch/members.js": """
function ofWide() { const x = require('./wide'); x.part() }
function ofTall() { const x = require('./tall'); x.part() }
""",
    "packages/core/src/index.ts": "export function boot() {}\n",
    "packages/site/src/main.ts": "import { boot } from '@acme/core'\nexport const main = () => boot()\n",
}


@pytest.fixture(scope="module")
def modules(running: Service, root: Path) -> str:
    return index_texts(running, root / "scripts", MODULES)


@pytest.mark.parametrize(
    ("name", "callers"),
    [
        ("Button", {"byDefault": RESOLVED, "barrelled": RESOLVED, "page": RESOLVED, "shadowed": ("by_name", 1)}),
        ("Panel", {"opened": RESOLVED, "named": RESOLVED}),
        ("Panel.open", {"opened": RESOLVED, "named": RESOLVED}),
        ("Inner", {"wrapped": LIKELY}),
        ("small", {"aliased": RESOLVED}),
    ],
)
def test_exports_by_default_and_under_other_names(
    running: Service, modules: str, name: str, callers: dict[str, tuple[str, int]]
) -> None:
    assert sure(running, modules, "callers", name) == callers


@pytest.mark.parametrize(
    ("name", "callers"),
    [
        ("send", {"whole": RESOLVED, "second": RESOLVED, "far": RESOLVED}),
        ("trim", {"members": RESOLVED, "taken": RESOLVED}),
        ("pad", {"members": RESOLVED, "taken": RESOLVED}),
        ("Circle", {"shaped": RESOLVED}),
        ("Circle.area", {"shaped": RESOLVED}),
        ("round", {"renamed": RESOLVED}),
        ("use", {"started": RESOLVED, "bare": RESOLVED}),
        ("set", {"use": LIKELY}),
    ],
)
def test_modules_that_are_required(
    running: Service, modules: str, name: str, callers: dict[str, tuple[str, int]]
) -> None:
    assert sure(running, modules, "callers", name) == callers


def test_scripts_that_are_no_modules_share_their_names(running: Service, modules: str) -> None:
    assert sure(running, modules, "callers", "greet") == {"start": LIKELY}
    # a method that is assigned to a prototype is called by no bare name
    listed = running.get(f"{TOOLS}/{modules}/symbols", name="purr")["items"]
    assert len(listed) == 2
    assert sure(running, modules, "callees", "still") == {"purr": LIKELY}
    assert sure(running, modules, "callers", "nap") == {"purr": LIKELY}


def test_a_package_of_the_same_repository_is_likely_meant(running: Service, modules: str) -> None:
    assert sure(running, modules, "callers", "boot") == {"main": LIKELY}


@pytest.mark.parametrize(
    ("name", "callers"),
    [
        ("begin", {"branched": ("likely", 2), "eitherOne": ("likely", 2)}),
        ("commence", {"branched": ("likely", 2)}),
        ("halt", {"eitherOne": ("likely", 2)}),
        ("log", {"logged": ("likely", 2)}),
        ("one", {"ran": ("likely", 2)}),
        ("two", {"ran": ("likely", 2)}),
        (
            "part",
            {"inWide": ("by_name", 2), "inTall": ("by_name", 2), "ofWide": ("likely", 2), "ofTall": ("likely", 2)},
        ),
    ],
)
def test_branches_may_mean_one_or_another(
    running: Service, modules: str, name: str, callers: dict[str, tuple[str, int]]
) -> None:
    assert sure(running, modules, "callers", name) == callers


def test_what_a_function_gets_hides_a_name(running: Service, modules: str) -> None:
    assert sure(running, modules, "callers", "next") == {"": ("by_name", 1)}
    found = sure(running, modules, "callers", "go")
    assert found.pop("passed") == RESOLVED
    assert {name: confidence for name, (confidence, _) in found.items()} == dict.fromkeys(
        ("unnamed", "caught", "arrow", "second", "nested"), "by_name"
    )


def test_what_is_passed_on_is_a_reference(running: Service, modules: str) -> None:
    found = running.get(f"{TOOLS}/{modules}/references", name="small")["items"]
    assert [(each["file_path"], each["start_line"], each["kind"]) for each in found] == [("es/index.ts", 4, "import")]


@pytest.mark.parametrize(
    ("name", "callers"),
    [
        ("round1", {"fromA": RESOLVED, "tooFromB": RESOLVED}),
        ("round2", {"fromB": RESOLVED, "tooFromA": RESOLVED}),
        ("deep", {"far": ("by_name", 1), "near": RESOLVED}),
    ],
)
def test_modules_that_pass_on_in_a_circle_or_from_afar(
    running: Service, modules: str, name: str, callers: dict[str, tuple[str, int]]
) -> None:
    assert sure(running, modules, "callers", name) == callers
