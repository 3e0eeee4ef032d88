"""Rules out rows that cannot be among the nearest, by vectors of one byte per dimension: a quarter of the memory.

The error of each rough cosine is bounded, so a row that may be near enough is never ruled out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from worker.machine.onnx.graph import INT8, INT32, UINT8, OnnxGraph
from worker.machine.onnx.session import is_installed, open_session
from worker.vectors import Vector
from worker.vectors.lance.largest import kth_largest
from worker.vectors.ties import EQUAL

log = structlog.get_logger()

#: Rows in a block, which stays in the processor's cache during its multiplication. Only full blocks are rough.
BLOCK_ROWS = 1_024
#: Minimum number of blocks. Fewer rows are compared as fast without rough vectors.
MIN_BLOCKS = 16
#: Number of integers on each side of zero: of a row, and of a query. Some processors add two products in 16 bits.
ROW_LEVELS, QUERY_LEVELS = 127, 63
#: Bytes of a row besides one for each dimension: its scale and its error.
ROW_BYTES = 8
#: Upper bound of the rounding error of 32-bit sums.
_ROUNDING = 2e-6
#: The smallest scale, so that zeros can be divided by it.
_TINY = 1e-9

#: Mask of the rows that may be found, by position.
Takes = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RoughRows:
    """The first n rows of a namespace, in full blocks. Rows of later states share its memory.

    `codes` (blocks, dimensions, `BLOCK_ROWS`) times `scales` (n) are approximate vectors. Each differs from its row's
    vector by a vector of at most the length in `errors` (n).
    """

    codes: NDArray[np.int8]
    scales: Vector
    errors: Vector

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self.codes.nbytes + self.scales.nbytes + self.errors.nbytes

    def possible(self, takes: Takes, unit_vector: Vector, limit: int) -> Takes:
        """Return which of the rows that it `takes` may be among the `limit` nearest, or as near as the last one."""
        halves, steps, rest = _halves(unit_vector)
        products = _session().run(None, {"query": halves, "codes": self.codes})[0]
        cosines = (products[:, 0] * steps[0] + products[:, 1] * steps[1]).reshape(-1)
        cosines *= self.scales
        of_block = takes[: len(cosines)]
        lowest = (cosines - self.errors)[of_block]
        if not 0 < limit <= len(lowest):
            return takes
        least = kth_largest(lowest, limit) - 2 * (rest + _ROUNDING) - EQUAL
        possible = takes.copy()
        possible[: len(cosines)] &= cosines + self.errors >= least
        return possible


class GrowingRoughRows:
    """The rough rows of vectors that are appended, or fill places of rows without one. Not thread-safe."""

    def __init__(self, dimensions: int) -> None:
        self._memory = RoughRows(
            np.empty((0, dimensions, BLOCK_ROWS), np.int8), np.empty(0, np.float32), np.empty(0, np.float32)
        )
        self._blocks = 0

    @property
    def nbytes(self) -> int:
        """The bytes of all rows. The space for new ones takes no memory until it is used."""
        return self._of(self._blocks).nbytes

    def of(self, unit: Vector, most_bytes: float) -> RoughRows | None:
        """Return rough rows of at most `most_bytes` for vectors of length 1, which begin with the earlier vectors."""
        dimensions = unit.shape[1]
        most = int(most_bytes / (BLOCK_ROWS * (dimensions + ROW_BYTES)))
        blocks = max(self._blocks, min(len(unit) // BLOCK_ROWS, most))
        if blocks < MIN_BLOCKS or not _can_multiply():
            return None
        if blocks > len(self._memory.codes):
            self._memory = self._roomy(2 * blocks, dimensions)
        for block in range(self._blocks, blocks):
            rows = slice(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS)
            codes, self._memory.scales[rows], self._memory.errors[rows] = _rounded(unit[rows])
            self._memory.codes[block] = codes.T
        self._blocks = blocks
        return self._of(blocks)

    def replace(self, unit: Vector, positions: NDArray[np.intp]) -> None:
        """Round the vectors at `positions` of `unit` again. No search may compare their rows meanwhile."""
        positions = positions[positions < self._blocks * BLOCK_ROWS]
        if len(positions):
            codes, self._memory.scales[positions], self._memory.errors[positions] = _rounded(unit[positions])
            self._memory.codes[positions // BLOCK_ROWS, :, positions % BLOCK_ROWS] = codes

    def _of(self, blocks: int) -> RoughRows:
        rows, memory = blocks * BLOCK_ROWS, self._memory
        return RoughRows(memory.codes[:blocks], memory.scales[:rows], memory.errors[:rows])

    def _roomy(self, blocks: int, dimensions: int) -> RoughRows:
        rows, before = blocks * BLOCK_ROWS, self._of(self._blocks)
        memory = RoughRows(
            np.empty((blocks, dimensions, BLOCK_ROWS), np.int8), np.empty(rows, np.float32), np.empty(rows, np.float32)
        )
        memory.codes[: self._blocks] = before.codes
        memory.scales[: len(before.scales)], memory.errors[: len(before.errors)] = before.scales, before.errors
        return memory


def _rounded(unit: Vector) -> tuple[NDArray[np.int8], Vector, Vector]:
    """Return integers for vectors, the value of 1 in each, and a bound on the length of each rounding error."""
    scales = np.maximum(np.abs(unit).max(axis=1), _TINY) / np.float32(ROW_LEVELS)
    codes = np.rint(unit / scales[:, None]).astype(np.int8)
    lost = unit - codes * scales[:, None]
    return codes, scales, np.sqrt(np.einsum("ij,ij->i", lost, lost)) + np.float32(_ROUNDING)


def _halves(unit_vector: Vector) -> tuple[NDArray[np.uint8], list[np.float32], float]:
    """Return two rows of integers around `QUERY_LEVELS` + 1, the value of 1 in each, and the rounding error's length.

    Their sum is the query: the second row holds the rounding error of the first. Two rows take as long as one.
    """
    halves, steps, lost = [], [], unit_vector
    for _ in range(2):
        step = np.maximum(np.abs(lost).max(), np.float32(_TINY)) / np.float32(QUERY_LEVELS)
        whole = np.rint(lost / step)
        lost = lost - whole * step
        halves.append(whole + (QUERY_LEVELS + 1))
        steps.append(step)
    return np.array(halves).astype(np.uint8), steps, float(np.linalg.norm(lost))


@cache
def _can_multiply() -> bool:
    """Return whether the runtime is here and works. Its import takes 0.2 s, which no search should wait for."""
    if not is_installed():
        return False
    try:
        _session()
    except Exception:
        log.warning("onnxruntime does not work here, so searches by vectors take longer; reinstall it", exc_info=True)
        return False
    return True


@cache
def _session() -> Any:
    """Open the session that multiplies halves of a query by blocks of rows."""
    graph = OnnxGraph()
    middle = graph.constant(np.array(QUERY_LEVELS + 1, np.uint8))
    products = graph.node("MatMulInteger", "query", "codes", middle)
    return open_session(
        graph.model(
            [("query", UINT8, ["half", "dimension"]), ("codes", INT8, ["block", "dimension", BLOCK_ROWS])],
            [(products, INT32, ["block", "half", BLOCK_ROWS])],
        )
    )
