"""Calls in Ruby, PHP and C++: the classes around a call are seen, and what only names tell is never called resolved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.local.test_callers import sure
from tests.integration.local.test_symbols import index_texts
from tests.service import Service

RESOLVED = ("resolved", 1)
LIKELY = ("likely", 1)

CODE = {
    "ruby/base.rb": """
class Vessel
  def fill(amount)
    amount
  end
end
""",
    "ruby/cup.rb": """
class Cup < Vessel
  def pour
    wash(1)
    fill(2)
  end

  def wash(times)
    times
  end

  def twice
    self.wash(2)
  end
end

def wash(times)
  times
end

def unknown(thing)
  thing.wash(3)
end
""",
    "php/Lamp.php": """<?php
namespace Shop;

class Light {
    public function dim(int $by) { return $by; }
    public static function make() { return new static(); }
}

class Lamp extends Light {
    public function off() { return $this->dim(1); }
    public function dim(int $by) { return parent::dim($by); }
    public static function pair() { return static::make(); }
    public static function other() { return self::pair(); }
}

function lit(Lamp $lamp) { return $lamp->off(); }
function made() { $lamp = new Lamp(); return $lamp->off(); }
function unseen($thing) { return $thing->off(); }
""",
    "php/far.php": "<?php\nfunction far(Lamp $lamp) { return $lamp->off(); }\n",
    "cpp/engine.h": """
#pragma once
class Engine {
public:
  void start();
  int power(int level);
};
""",
    "cpp/engine.cpp": """
#include "engine.h"

int power(int level) { return level; }

void Engine::start() { power(1); }

int Engine::power(int level) { return level; }

void run(Engine &engine) { engine.start(); }

void free_call() { power(2); }
""",
}


@pytest.fixture(scope="module")
def code(running: Service, root: Path) -> str:
    return index_texts(running, root / "by-class", CODE)


@pytest.mark.parametrize(
    ("name", "callers"),
    [
        # a method of the class comes before a function of the file
        ("Cup.wash", {"Cup/pour": RESOLVED, "Cup/twice": RESOLVED, "unknown": ("by_name", 2)}),
        ("Vessel.fill", {"Cup/pour": LIKELY}),
        ("Light.dim", {"Lamp/dim": LIKELY}),
        ("Lamp.dim", {"Lamp/off": RESOLVED}),
        ("Light.make", {"Lamp/pair": LIKELY}),
        ("Lamp.pair", {"Lamp/other": RESOLVED}),
        ("Lamp.off", {"lit": RESOLVED, "made": RESOLVED, "far": LIKELY, "unseen": ("by_name", 1)}),
    ],
)
def test_classes_around_a_call_are_seen(
    running: Service, code: str, name: str, callers: dict[str, tuple[str, int]]
) -> None:
    assert sure(running, code, "callers", name) == callers


def test_members_of_c_plus_plus_hide_functions(running: Service, code: str) -> None:
    assert sure(running, code, "callers", "Engine.power")["Engine/start"][0] == "resolved"
    assert "free_call" not in sure(running, code, "callers", "Engine.power")
    assert sure(running, code, "callers", "Engine.start")["run"][0] == "likely"


#: What a reader of one screen may take for another definition, each with its own names.
DOUBTFUL = {
    "union.php": """<?php
class A1 { function off1() {} }
class B1 { function off1() {} }
function either(A1|B1 $x) { $x->off1(); }
function spaced(null | A1 | \\Shop\\B1 $x) { $x->off1(); }
function nullable(?A1 $x) { $x->off1(); }
function tried() {
  try { x(); }
  catch (A1 | B1 $e) {
    $e->off1();
  }
}
""",
    "closure.php": """<?php
class P2 { function off2() {} }
class Q2 { function off2() {} }
function mixed2($x) { $y = function (P2 $x) { $x->off2(); }; $x->off2(); }
function arrow2($x) { $y = fn (P2 $x) => 1; $x->off2(); }
function both2(Q2 $x) { $y = static function (P2 $x) { return 1; }; $x->off2(); }
""",
    "own.rb": """
def wash3
  1
end

class Cup3
  def wash3
    2
  end

  def rinse3
    wash3()
  end

  def self.make3
    wash3()
  end

  def self.wash4
    2
  end

  def self.make4
    wash4()
  end
end
""",
    "inner.rb": """
def pour5
  1
end

class Outer5
  def pour5
    2
  end

  class Inner5
    def run5
      pour5()
    end
  end
end
""",
    "module.rb": """
def pour6
  1
end

module Tools6
  def pour6
    2
  end

  def run6
    pour6()
  end
end
""",
    "param.cpp": """
struct A7 {
  void go7() {}
  void sure7() { go7(); }
  void hidden7(std::function<void()> go7) { go7(); }
  void local7() { auto go7 = [&]{}; go7(); }
  void made7() { std::function<void()> go7(other); go7(); }
  int more7() { return go7(); }
};
namespace b7 {
void point7() {}
void pointed7(void (*point7)()) { point7(); }
}
""",
    "mem/b.h": """
class B8 {
 public:
  void go8();
  void run8();
};
""",
    "mem/b.cpp": """
#include "b.h"
static void go8(int x) {}
void B8::run8() { go8(); }
""",
    "mem/b2.cpp": """
#include "b.h"
void B8::go8() {}
""",
    "lambda.cpp": """
struct T9 { void go9() {} };
struct U9 { void go9() {} };
void taken9(T9 x) { auto f = [](U9 x) { return 1; }; x.go9(); }
void alone9(int x) { auto f = [](U9 x) { x.go9(); }; }
""",
}
BOTH = ("likely", 2)
BY_NAME = ("by_name", 2)


@pytest.fixture(scope="module")
def doubtful(running: Service, root: Path) -> str:
    return index_texts(running, root / "doubtful", DOUBTFUL)


@pytest.mark.parametrize(
    ("name", "callers"),
    [
        ("A1.off1", {"either": BOTH, "spaced": BOTH, "nullable": RESOLVED, "tried": BOTH}),
        ("B1.off1", {"either": BOTH, "spaced": BOTH, "tried": BOTH}),
        ("P2.off2", {"mixed2": BY_NAME, "arrow2": BY_NAME, "both2": BOTH}),
        ("Q2.off2", {"mixed2": BY_NAME, "arrow2": BY_NAME, "both2": BOTH}),
        # a method of the class sees no method of its instances
        ("Cup3.wash3", {"Cup3/rinse3": RESOLVED, "Cup3/make3": BY_NAME}),
        ("Cup3.wash4", {"Cup3/make4": RESOLVED}),
        # Ruby looks for methods in no class further out
        ("Outer5.pour5", {"Outer5/Inner5/run5": BY_NAME}),
        ("Tools6.pour6", {"Tools6/run6": RESOLVED}),
        (
            "A7.go7",
            {
                "A7/sure7": RESOLVED,
                "A7/hidden7": ("by_name", 1),
                "A7/local7": ("by_name", 1),
                "A7/made7": ("by_name", 1),
                "A7/more7": RESOLVED,
            },
        ),
        ("point7", {"b7/pointed7": ("by_name", 1)}),
        # it is declared, and defined
        ("B8.go8", {"B8/run8": BOTH}),
        ("T9.go9", {"taken9": BOTH, "alone9": BY_NAME}),
        ("U9.go9", {"taken9": BOTH, "alone9": BY_NAME}),
    ],
)
def test_what_is_in_doubt_is_not_called_resolved(
    running: Service, doubtful: str, name: str, callers: dict[str, tuple[str, int]]
) -> None:
    assert sure(running, doubtful, "callers", name) == callers
