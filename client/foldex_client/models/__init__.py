"""What the service answers, and the objects that calls take.

docs/reference/http.md describes every field. Fields that this version does not know are kept, so a client goes on with
a newer service. Words such as `status` or `reason` are strings, because a newer service may have more of them.
"""

from __future__ import annotations

from foldex_client.models.base import Model, Note, Page
from foldex_client.models.code import Call, CallGraph, GrepAnswer, GrepHit, Symbol, Use
from foldex_client.models.content import Access, HostFinding, HostProcess, Hosts, Node, Upload, Uploaded
from foldex_client.models.indexers import IndexerInfo, SourceInfo
from foldex_client.models.llms import ModelBudget, ModelCheck, ModelInfo, Models
from foldex_client.models.search import (
    AcrossAnswer,
    Answer,
    Around,
    Context,
    Coverage,
    FileChunk,
    Filters,
    Found,
    Hit,
    ListedChunk,
    Mode,
    Piece,
    PlacedHit,
    Refresh,
    Rerank,
    ScoredPiece,
    Searched,
    Step,
    SummaryHit,
    TreeHit,
    TreeSearch,
)
from foldex_client.models.tools import (
    File,
    FileText,
    IndexInfo,
    Placed,
    RaptorConfig,
    Source,
    Status,
    Tool,
    ToolConfig,
    Updating,
)
from foldex_client.models.trees import RaptorEstimate, RaptorStatus, TreeLevel, TreeNode

__all__ = [
    "Access",
    "AcrossAnswer",
    "Answer",
    "Around",
    "Call",
    "CallGraph",
    "Context",
    "Coverage",
    "File",
    "FileChunk",
    "FileText",
    "Filters",
    "Found",
    "GrepAnswer",
    "GrepHit",
    "Hit",
    "HostFinding",
    "HostProcess",
    "Hosts",
    "IndexInfo",
    "IndexerInfo",
    "ListedChunk",
    "Mode",
    "Model",
    "ModelBudget",
    "ModelCheck",
    "ModelInfo",
    "Models",
    "Node",
    "Note",
    "Page",
    "Piece",
    "Placed",
    "PlacedHit",
    "RaptorConfig",
    "RaptorEstimate",
    "RaptorStatus",
    "Refresh",
    "Rerank",
    "ScoredPiece",
    "Searched",
    "Source",
    "SourceInfo",
    "Status",
    "Step",
    "SummaryHit",
    "Symbol",
    "Tool",
    "ToolConfig",
    "TreeHit",
    "TreeLevel",
    "TreeNode",
    "TreeSearch",
    "Updating",
    "Upload",
    "Uploaded",
    "Use",
]
