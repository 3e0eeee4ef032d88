"""The arithmetic of int8, and the groups of texts that pass through the model together."""

from __future__ import annotations

import platform
import random
from pathlib import Path

import numpy as np
import pytest

from worker.embed.local import runtime
from worker.embed.local.bert import Dense
from worker.machine.onnx import session
from worker.machine.onnx.graph import FLOAT, INT32, RUNTIME, OnnxGraph, Port

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("depth", [384, 1536])
@pytest.mark.parametrize("overflows", [False, True])
def test_products_of_the_largest_numbers_are_exact(
    depth: int, overflows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some processors add two products in 16 bits."""
    overflows = overflows or session._overflows()
    monkeypatch.setattr(session, "_overflows", lambda: overflows)
    weight = RNG.choice(np.array([-127, 126, 127], dtype=np.int8), (depth, 16))
    graph = OnnxGraph()
    middle, one = graph.constant(np.array(128, dtype=np.uint8)), graph.constant(np.float32(1))
    whole = graph.node("QuantizeLinear", "rows", one, middle)
    scale = graph.constant(np.ones(16, dtype=np.float32))
    out = graph.node("MatMulIntegerToFloat", whole, graph.constant(weight), one, scale, middle, domain=RUNTIME)
    model = graph.model([("rows", FLOAT, ["row", depth])], [(out, FLOAT, ["row", 16])])
    rows = RNG.choice(np.array([-127, 1, 127], dtype=np.float32), (40, depth))
    (found,) = session.open_session(model).run(None, {"rows": rows})
    assert np.array_equal(found, rows.astype(np.int64) @ weight.astype(np.int64))


def test_rounding_keeps_each_column_to_half_a_step() -> None:
    weight = RNG.normal(size=(384, 8)).astype(np.float32) * np.logspace(-6, 3, 8, dtype=np.float32)
    weight[:, 3] = 0
    whole, scale = runtime.rounded(weight)
    assert np.abs(whole).max(axis=0).tolist() == [127, 127, 127, 0, 127, 127, 127, 127]
    assert (np.abs(whole * scale - weight) <= 0.501 * scale).all()


def test_groups_hold_each_text_once_and_little_padding() -> None:
    chance = random.Random(5)
    for _ in range(50):
        lengths = [chance.randint(2, 256) for _ in range(chance.randint(0, 40))]
        groups = list(runtime.padded_groups(lengths))
        assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
        longest = [lengths[group[0]] for group in groups]
        assert longest == sorted(longest, reverse=True)
        sizes = [len(group) * length for group, length in zip(groups, longest, strict=True)]
        assert all(size <= max(runtime._ROWS, length) for size, length in zip(sizes, longest, strict=True))
        # no group had room for one more
        assert all(size + length > runtime._ROWS for size, length in list(zip(sizes, longest, strict=True))[:-1])


def test_a_row_is_rounded_by_its_largest_absolute_value() -> None:
    rows = RNG.normal(size=(5, 384)).astype(np.float32)
    rows[0, 7], rows[1, 7], rows[2], rows[3] = -9, 9, 0, -np.abs(rows[3])
    dense = Dense(RNG.normal(size=(384, 16)).astype(np.float32), np.zeros(16, dtype=np.float32))
    encoder = runtime._Encoder(384, 12)
    out = encoder._apply(dense, "rows")
    model = encoder.graph.model([("rows", FLOAT, ["row", 384])], [(out, FLOAT, ["row", 16])])
    (found,) = session.open_session(model).run(None, {"rows": rows})
    whole, scale = runtime.rounded(dense.weight)
    steps = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-9) / 127
    assert found == pytest.approx(np.rint(rows / steps) @ whole.astype(np.float32) * scale * steps, rel=1e-4, abs=1e-6)


def test_attention_has_the_numbers_of_the_operator_that_made_older_vectors() -> None:
    width, heads, lengths = 384, 12, [37, 5, 36]
    weight = RNG.normal(size=(width, 3 * width)).astype(np.float32) / np.float32(50)
    qkv = Dense(weight, RNG.normal(size=3 * width).astype(np.float32))
    rows = RNG.normal(size=(len(lengths), max(lengths), width)).astype(np.float32)
    padding = np.zeros((len(lengths), 1, 1, max(lengths)), dtype=np.float32)
    for at, length in enumerate(lengths):
        padding[at, ..., length:] = -np.inf
    given: Port = ("rows", FLOAT, ["text", "piece", width])

    encoder = runtime._Encoder(width, heads)
    out = encoder._attend(qkv, encoder.graph.node("Reshape", "rows", encoder.flat))
    model = encoder.graph.model([given, runtime.PADDING], [(out, FLOAT, ["row", width])])
    (found,) = session.open_session(model).run(None, {"rows": rows, "padding": padding})

    encoder = runtime._Encoder(width, heads)
    graph, flat = encoder.graph, encoder.graph.node("Reshape", "rows", encoder.flat)
    wide = graph.node("Reshape", encoder._apply(qkv, flat), encoder._wide)
    split = graph.nodes("Split", 3, wide, graph.constant(np.array([width] * 3)), axis=-1)
    attention = *split, graph.constant(qkv.bias), "lengths"
    out = graph.node("MultiHeadAttention", *attention, domain=RUNTIME, num_heads=heads, scale=1.0)
    model = graph.model([given, ("lengths", INT32, ["text"])], [(out, FLOAT, ["text", "piece", width])])
    (expected,) = session.open_session(model).run(None, {"rows": rows, "lengths": np.array(lengths, dtype=np.int32)})

    for at, length in enumerate(lengths):
        assert np.array_equal(found.reshape(expected.shape)[at, :length], expected[at, :length])


@pytest.mark.parametrize(
    ("machine", "flags", "expected"),
    [
        ("x86_64", "flags: avx2 fma", True),
        ("x86_64", "flags: avx2 avx512_vnni", False),
        ("AMD64", "flags: avx_vnni", False),
        ("aarch64", "Features: asimd", False),
    ],
)
def test_processors_that_overflow_are_known(
    machine: str, flags: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(Path, "read_text", lambda _: flags)
    assert session._overflows() is expected
