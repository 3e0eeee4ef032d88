"""Calls in Python that are easy to miss, or to take for another definition."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.local.test_callers import sure
from tests.integration.local.test_symbols import index_texts
from tests.service import TOOLS, Service

RESOLVED = ("resolved", 1)
LIKELY = ("likely", 1)
BY_NAME = ("by_name", 1)

CODE = {
    "shop/__init__.py": "from .cart import Cart as Basket\nfrom .cart import load as load_cart\n",
    "shop/cart.py": """
class Cart:
    def __init__(self, size=1):
        self.size = size

    def add(self, item):
        return item

class Crate:
    def __init__(self):
        pass

    def add(self, item):
        return item

def load(name):
    return name

def pack(name):
    return name

def weigh(name):
    return name

def zero(name):
    return name

default = Cart()
""",
    "shop/certs.py": """
try:
    from outside import cert_path
except ImportError:
    def cert_path(text):
        return text
""",
    "shop/fast.py": "def sign(text):\n    return text\n\ndef rapid(text):\n    return text\n",
    "shop/slow.py": "def sign(text):\n    return text\n",
    "shop/quick.py": """
try:
    from .fast import rapid
    from . import fast as way
except ImportError:
    from . import slow as way
    def rapid(text):
        return text

def hurried():
    return rapid("a")

def on_its_way():
    return way.sign("b")
""",
    "shop/signed.py": """
try:
    from .fast import sign
except ImportError:
    from .slow import sign

def signed():
    return sign("a")
""",
    "app.py": """
from shop import Basket, load_cart
from shop.cart import Cart, Crate, default, load, pack
from shop.certs import cert_path

def made():
    return Basket(2)

def loaded():
    return load_cart("a")

def own(pack):
    return pack("a")

def again():
    load = make_loader()
    return load("a")

def inner():
    from shop.slow import pack
    return pack("b")

def outer():
    return pack("c")

def weigh(name):
    from shop.cart import weigh
    return weigh(name)

class Scale:
    @overload
    def set(self, name: str): ...
    @overload
    def set(self, name: int): ...
    def set(self, name):
        from shop.cart import zero
        def later():
            return zero(name)
        return later

def zero(name):
    return name

def unpacked(pair):
    load, other = pair()
    return load("d")

def insured(value):
    insured = wrapped(value)
    return insured(value)

def counted(value):
    return counted(value - 1)

def certified():
    return cert_path("a")

def each(carts: list[Cart]):
    for cart in carts:
        cart.add(7)

def either(cart: Cart | Crate):
    cart.add(1)

def passed():
    send(cart=Cart())
    cart = pick()
    cart.add(2)

def changed(flag):
    cart = Cart()
    if flag:
        cart = flag
    cart.add(3)

def kept():
    default.add(4)

def both(cart: Cart, crate: Crate):
    cart.add(crate.add(5))

def grown(cart: Cart):
    cart.crate = Crate()
    cart.add(6)
""",
    "packages/core/src/acme/tools.py": "def forge(text):\n    return text\n\ndef dumps(text):\n    return text\n",
    "packages/site/src/site.py": """
from acme.tools import forge
import acme.tools as tools
import json

def main():
    return forge("a")

def second():
    return tools.forge("b")

def third():
    return json.dumps("c")
""",
}


@pytest.fixture(scope="module")
def code(running: Service, root: Path) -> str:
    return index_texts(running, root / "easily-missed", CODE)


@pytest.mark.parametrize(
    ("name", "callers"),
    [
        # a package passes the class on under another name; the module itself makes one
        ("Cart", {"made": RESOLVED, "passed": RESOLVED, "changed": RESOLVED, "default": RESOLVED}),
        ("Cart.__init__", {"made": RESOLVED, "passed": RESOLVED, "changed": RESOLVED, "default": RESOLVED}),
        ("load", {"loaded": RESOLVED, "again": BY_NAME, "unpacked": BY_NAME}),
        # a parameter, an import within another function
        ("pack", {"own": BY_NAME, "outer": RESOLVED}),
        ("rapid", {"hurried": ("likely", 2)}),
        ("sign", {"signed": ("likely", 2), "on_its_way": ("likely", 2)}),
        ("forge", {"main": LIKELY, "second": LIKELY}),
        # a variable with the name of its function, a function that another branch imports
        ("insured", {"insured": BY_NAME}),
        ("counted", {"counted": RESOLVED}),
        ("cert_path", {"certified": LIKELY}),
        ("dumps", {}),
    ],
)
def test_names(running: Service, code: str, name: str, callers: dict[str, tuple[str, int]]) -> None:
    assert sure(running, code, "callers", name) == callers


def test_members_of_what_may_be_several(running: Service, code: str) -> None:
    found = sure(running, code, "callers", "Cart.add")
    assert found == {
        "either": ("likely", 2),
        "each": ("by_name", 2),
        "passed": ("by_name", 2),
        "changed": LIKELY,
        "kept": RESOLVED,
        "both": RESOLVED,
        "grown": RESOLVED,
    }
    assert sure(running, code, "callers", "Crate.add") == {
        "either": ("likely", 2),
        "each": ("by_name", 2),
        "passed": ("by_name", 2),
        "both": RESOLVED,
    }


def test_an_import_within_a_function_hides_what_its_file_defines(running: Service, code: str) -> None:
    items = running.get(f"{TOOLS}/{code}/symbols/callees", name="weigh", file_id=file_of(running, code, "app.py"))[
        "items"
    ]
    assert [(i["file_path"], i["confidence"]) for i in items] == [("shop/cart.py", "resolved")]
    # of overloads, the last contains the import
    items = running.get(f"{TOOLS}/{code}/symbols/callees", name="later")["items"]
    assert [(i["file_path"], i["confidence"]) for i in items] == [("shop/cart.py", "resolved")]


def file_of(running: Service, tool: str, path: str) -> str:
    return str(next(each["file_id"] for each in running.files(tool) if each["file_path"] == path))


def test_branches_that_import_from_several_modules(running: Service, code: str) -> None:
    items = running.get(f"{TOOLS}/{code}/symbols/callees", name="signed")["items"]
    assert [(i["file_path"], i["confidence"], i["definitions"]) for i in items] == [
        ("shop/fast.py", "likely", 2),
        ("shop/slow.py", "likely", 2),
    ]
