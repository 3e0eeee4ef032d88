"""Calls in Java, Go, Rust and C#, whose files see names without importing each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.local.test_callers import sure
from tests.integration.local.test_symbols import write
from tests.service import Service

RESOLVED = ("resolved", 1)

JAVA = {
    "src/main/java/org/shop/base/Box.java": """
package org.shop.base;

public abstract class Box {
  protected int weigh() { return 1; }
  public void close() { }
}
""",
    "src/main/java/org/shop/Crate.java": """
package org.shop;

import org.shop.base.Box;

public class Crate extends Box {
  private final Label label = new Label();
  public static Crate open(String name) { return new Crate(); }
  public int size() { return weigh() + this.weigh(); }
  public void print() { label.print(); }
  public void shut() { super.close(); }
}
""",
    "src/main/java/org/shop/Label.java": """
package org.shop;

class Label {
  void print() { }
}
""",
    "src/main/java/org/other/Label.java": """
package org.other;

public class Label {
  public void print() { }
}
""",
    "src/main/java/org/other/Use.java": """
package org.other;

import org.shop.*;
import static org.shop.Crate.open;

class Use {
  void typed(Crate crate) { crate.size(); }
  void made() { var crate = Crate.open("a"); crate.size(); }
  void bare() { open("b"); }
  void own(Label label) { label.print(); }
  void unknown(Object thing) { helper().print(); }
}
""",
}
GO = {
    "go.mod": "module example.org/shop\n\ngo 1.22\n",
    "server.go": """
package shop

import "example.org/shop/store"

type Server struct {
	Logger
	db *store.Store
}

func New() *Server {
	return &Server{db: store.Open("a")}
}

func (s *Server) Run() {
	s.start()
	s.db.Put("x")
	s.Log("y")
}
""",
    "start.go": """
package shop

type Logger struct{}

func (l Logger) Log(text string) {}

func (s *Server) start() {
	helper()
}

func helper() {}
""",
    "store/store.go": """
package store

type Store struct{}

func Open(name string) *Store { return &Store{} }

func (s *Store) Put(key string) { helper() }

func helper() {}
""",
    "cmd/main.go": """
package main

import (
	st "example.org/shop/store"
	"example.org/shop"
)

func main() {
	server := shop.New()
	server.Run()
	db := st.Open("b")
	db.Put("c")
}

func put(db *st.Store) { db.Put("d") }
""",
}
RUST = {
    "src/lib.rs": "pub mod engine;\npub mod names;\npub mod store;\n",
    "src/names.rs": """
pub fn format(text: &str) {}

pub fn turn() -> turn::Thing { }

pub fn turned() { let thing = turn(); thing.put("f"); }
""",
    "src/store.rs": """
pub struct Store { names: Vec<String> }

impl Store {
    pub fn open(name: &str) -> Self { Self::check(name); Store { names: vec![] } }
    fn check(name: &str) { format!("{}", name); }
    pub fn put(&mut self, key: &str) { self.touch() }
    fn touch(&self) {}
}

pub fn helper() {}
""",
    "src/engine.rs": """
use crate::store::{self, helper as help, Store};

pub struct Engine { store: Store }

pub trait Job { fn work(&self) { } }

impl Job for Engine { }

impl Engine {
    pub fn run(&mut self) { self.store.put("a"); self.work(); help(); store::helper(); }
}

pub fn made() { let mut store = Store::open("b"); store.put("c"); }

pub fn typed(store: &mut Store) { store.put("d"); }

pub fn unknown<T>(thing: T) { thing.put("e"); }
""",
}
RENAMED = {
    "src/lib.rs": """
mod deep;
mod near;
pub mod user;
pub use crate::deep::inner::first as second;
pub use deep::inner::Thing as Item;
pub use near::*;
pub mod prelude { pub use crate::deep::inner::first as early; }
""",
    "src/deep/mod.rs": "pub mod inner;\npub use self::inner::{first as third, last};\n",
    "src/deep/inner.rs": """
pub struct Thing {}

impl Thing { pub fn turn(&self) {} }

pub fn first() {}

pub fn last() {}
""",
    "src/near.rs": "pub use super::deep::third as fourth;\n",
    "src/user.rs": """
use crate::prelude::*;
use crate::{fourth, second as fifth, Item};

pub fn by_import() { fifth(); }

pub fn by_path() { crate::second(); }

pub fn by_folder() { crate::deep::third(); }

pub fn by_star() { fourth(); }

pub fn by_prelude() { early(); }

pub fn same_name() { crate::deep::last(); }

pub fn of_type(item: &Item) { item.turn(); }

mod tests {
    use super::fifth;
    fn tested() { fifth(); }
}
""",
    "src/main.rs": "fn main() { shop::second(); }\n",
    # passes on to itself
    "src/round.rs": "pub use self::other as lost;\npub use self::lost as other;\npub use crate::round::*;\n",
    "src/lost.rs": "use crate::round::lost;\n\npub fn missing() { lost(); }\n",
}
CSHARP = {
    "Base/Box.cs": """
namespace Shop.Base;

public abstract class Box
{
    protected int Weigh() { return 1; }
    public virtual void Close() { }
}
""",
    "Crate.cs": """
using Shop.Base;

namespace Shop
{
    public partial class Crate : Box
    {
        readonly Label _label = new Label();
        public static Crate Open(string name) { return new Crate(); }
        public int Size() { return Weigh() + this.Weigh() + Part(); }
        public void Print() { _label.Print(); }
        public override void Close() { base.Close(); }
    }
}
""",
    "Crate.Part.cs": """
namespace Shop
{
    public partial class Crate
    {
        int Part() { return 2; }
    }

    class Label
    {
        public void Print() { }
    }
}
""",
    "Other/Use.cs": """
using Shop;

namespace Other;

class Label
{
    public void Print() { }
}

class Use
{
    void Typed(Crate crate) { crate.Size(); }
    void Made() { var crate = Crate.Open("a"); crate.Size(); }
    void Own(Label label) { label.Print(); }
}
""",
}


@pytest.fixture(scope="module")
def shops(running: Service, root: Path) -> dict[str, str]:
    """A tool for each language, whose code has equal names in different places."""
    made = {}
    for language, texts in {"java": JAVA, "go": GO, "rust": RUST, "renamed": RENAMED, "csharp": CSHARP}.items():
        folder = root / f"shop-{language}"
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write(folder, name, text)
        made[language] = running.local_tool(folder)
    for tool in made.values():
        running.wait(tool)
    return made


def test_java_follows_packages_imports_fields_and_parents(running: Service, shops: dict[str, str]) -> None:
    tool = shops["java"]
    assert sure(running, tool, "callers", "Box.weigh") == {"Crate/size": RESOLVED}
    assert sure(running, tool, "callers", "Box.close") == {"Crate/shut": RESOLVED}
    assert sure(running, tool, "callers", "Crate.size") == {"Use/typed": RESOLVED, "Use/made": RESOLVED}
    assert sure(running, tool, "callers", "Crate.open") == {"Use/made": RESOLVED, "Use/bare": RESOLVED}
    callers = running.get(f"/api/tools/search/{tool}/symbols/callers", name="Label.print")["items"]
    assert {(each["name"], each["confidence"], each["definitions"]) for each in callers} == {
        ("print", "resolved", 1),
        ("own", "resolved", 1),
        ("unknown", "by_name", 3),
    }
    own = running.get(f"/api/tools/search/{tool}/symbols/callees", name="Use.own")["items"]
    assert [each["file_path"] for each in own] == ["src/main/java/org/other/Label.java"]


def test_go_follows_packages_receivers_fields_and_embedded_types(running: Service, shops: dict[str, str]) -> None:
    tool = shops["go"]
    assert sure(running, tool, "callees", "Server.Run") == {
        "Server/start": RESOLVED,
        "Store/Put": RESOLVED,
        "Logger/Log": RESOLVED,
    }
    assert sure(running, tool, "callers", "Store.Put") == {"Server/Run": RESOLVED, "main": RESOLVED, "put": RESOLVED}
    assert sure(running, tool, "callers", "Server.Run") == {"main": RESOLVED}
    assert sure(running, tool, "callers", "Open") == {"New": RESOLVED, "main": RESOLVED}
    started = running.get(f"/api/tools/search/{tool}/symbols/callees", name="Server.start")["items"]
    assert [(each["file_path"], each["confidence"]) for each in started] == [("start.go", "resolved")]


def test_rust_follows_paths_impls_fields_and_traits(running: Service, shops: dict[str, str]) -> None:
    tool = shops["rust"]
    assert sure(running, tool, "callers", "Store.put") == {
        "Engine/run": RESOLVED,
        "made": RESOLVED,
        "typed": RESOLVED,
        "unknown": ("by_name", 1),
        # what it returns names the function itself
        "turned": ("by_name", 1),
    }
    assert sure(running, tool, "callers", "helper") == {"Engine/run": RESOLVED}
    assert sure(running, tool, "callers", "Store.touch") == {"Store/put": RESOLVED}
    assert sure(running, tool, "callers", "Store.check") == {"Store/open": RESOLVED}
    assert sure(running, tool, "callers", "Job.work") == {"Engine/run": RESOLVED}
    assert sure(running, tool, "callers", "format") == {}, "the macro is not this function, which is not imported"


def test_rust_follows_what_modules_pass_on_under_other_names(running: Service, shops: dict[str, str]) -> None:
    tool = shops["renamed"]
    assert sure(running, tool, "callers", "first") == {
        "by_import": RESOLVED,
        "tests/tested": RESOLVED,
        "by_path": RESOLVED,
        "by_folder": RESOLVED,
        "by_star": RESOLVED,
        "by_prelude": RESOLVED,
        # the crate has this name, or another one
        "main": ("likely", 1),
    }
    assert sure(running, tool, "callers", "last") == {"same_name": RESOLVED}
    assert sure(running, tool, "callers", "Thing.turn") == {"of_type": RESOLVED}
    for caller in ("by_import", "by_path", "by_folder", "by_star", "by_prelude"):
        assert sure(running, tool, "callees", caller) == {"first": RESOLVED}
    assert sure(running, tool, "callees", "missing") == {"lost": ("likely", 0)}


def test_csharp_follows_namespaces_partial_classes_and_parents(running: Service, shops: dict[str, str]) -> None:
    tool = shops["csharp"]
    assert sure(running, tool, "callers", "Box.Weigh") == {"Shop/Crate/Size": RESOLVED}
    assert sure(running, tool, "callers", "Crate.Part") == {"Shop/Crate/Size": RESOLVED}
    assert sure(running, tool, "callers", "Box.Close") == {"Shop/Crate/Close": RESOLVED}
    assert sure(running, tool, "callers", "Crate.Size") == {"Use/Typed": RESOLVED, "Use/Made": RESOLVED}
    own = running.get(f"/api/tools/search/{tool}/symbols/callees", name="Use.Own")["items"]
    assert [each["file_path"] for each in own] == ["Other/Use.cs"]
