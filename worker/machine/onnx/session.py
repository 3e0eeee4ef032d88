"""Opens sessions of ONNX Runtime, which is installed with the local model."""

from __future__ import annotations

import platform
from importlib.util import find_spec
from pathlib import Path
from typing import Any

#: x86 processors without one of these features overflow when they multiply int8, unless an option of the runtime avoids
#: it.
_EXACT = ("avx512_vnni", "avx_vnni")
_ERRORS_ONLY = 3


def is_installed() -> bool:
    """Return whether ONNX Runtime is installed, without importing it."""
    return find_spec("onnxruntime") is not None


def open_session(model: bytes) -> Any:
    """Open a session that computes in the caller's thread, with the same products on every processor."""
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    if _overflows():
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _overflows() -> bool:
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return False
    known = Path("/proc/cpuinfo")
    return not (known.exists() and any(flag in known.read_text() for flag in _EXACT))
