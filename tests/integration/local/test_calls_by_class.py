"""Calls in Ruby, PHP and C++: the classes around a call are seen, and what only names tell is never called resolved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.local.test_callers import sure
from tests.integration.local.test_symbols import write
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
    made = root / "by-class"
    for name, text in CODE.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        write(made, name, text)
    tool = running.local_tool(made)
    running.wait(tool)
    return tool


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
