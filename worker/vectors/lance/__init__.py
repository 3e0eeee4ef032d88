"""The vector store on this machine's disk: LanceDB.

LanceDB imports the models of a client of remote catalogues, whose package also builds that client: half of the time of
importing LanceDB. Foldex opens no catalogue. So the package is given here without its `__init__`, which alone imports
the client.
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
