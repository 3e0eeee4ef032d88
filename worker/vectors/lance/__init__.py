"""The vector store on this machine's disk: LanceDB.

Half of LanceDB's import time goes into a client of remote catalogues, which Foldex never uses. LanceDB needs only the
models of that client's package, but the package's `__init__` imports the client as well. So the package is registered
here without running its `__init__`.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_CATALOGUE_CLIENT = "lance_namespace_urllib3_client"


def _leave_out_the_catalogue_client() -> None:
    spec = PathFinder.find_spec(_CATALOGUE_CLIENT)
    if spec is not None and spec.submodule_search_locations and _CATALOGUE_CLIENT not in sys.modules:
        sys.modules[_CATALOGUE_CLIENT] = module_from_spec(spec)


_leave_out_the_catalogue_client()
