"""The tree of all errors. Every error has a `code`, an HTTP status and a flag that says whether a retry can help.

FoldexError
├── Unauthorized
│   └── TokenInvalid
├── TokenUnusable · IssuerUnavailable
├── ScopeMissing · NotLoopback · CrossSite · SessionNeeded · LinkUsed · NotFound · TooManyTools
├── Conflict
│   └── LastAdminKey
├── Invalid
│   ├── FilterMatchesNothing · ModelNotAllowed · ModelRefused · NoTree
│   └── TooLarge · TooManyValues · HeadersTooLarge · UrlTooLong · BodyTooSlow · RangeNotSatisfiable
├── TooManyConnections    (of one process of the API)
├── BodiesBusy            (too many large bodies arrive or are in progress)
├── SearchSlow            (a search of several tools, and none answered in time)
├── ProjectBusy           (the project has its share of calls in progress)
├── ServerBusy            (the calls of all projects fill the API)
├── SearchBusy            (too many large answers are in progress)
├── EstimateBusy          (too many estimates are in progress)
├── EmbeddingError
│   ├── EmbeddingRefused      (these inputs)
│   │   └── EmbeddingUnreadable (an answer that does not fit; many of them fail the whole task)
│   ├── EmbeddingUnauthorized (this key or model; fails the whole task)
│   └── EmbeddingUnavailable  (temporary; a ModelUnavailable)
├── RerankError
│   ├── RerankNotConfigured
│   └── RerankUnavailable     (the hits keep their order)
├── LlmError
│   ├── LlmNotConfigured
│   ├── LlmRefused            (these texts)
│   ├── LlmUnauthorized       (this key or model; ends the build)
│   ├── LlmUnavailable        (temporary; a ModelUnavailable)
│   └── LlmFailed             (several clusters in a row; ends the build)
├── SourceError
│   ├── FolderGone · FolderElsewhere · SourceRefused
│   └── SourceUnavailable
│       ├── SourceBusy        (too many files are being opened)
│       └── ContentsElsewhere (another directory holds the contents)
├── FileError             (the outcome of one file; never fails the task)
│   └── FileTooSlow
├── StoreError
│   ├── StoreRefused          (these rows)
│   ├── StoreUnauthorized
│   ├── TextKeyMissing        (whose hashes the store has)
│   └── StoreUnavailable
│       └── VectorsElsewhere  (another directory holds the vectors)
├── SchemaBehind          (Postgres lacks migrations of this release)
├── ReleaseBehind         (a newer release wrote a tool)
├── Locked                (another session of Postgres holds a row or a table)
├── DiskFull              (the disk of FOLDEX_HOME, or of Postgres)
├── TreeError             (ends the build of a summary tree; the last complete one stays)
│   └── TooManyLeaves · TooManyTokens · MissingDependency
├── TaskCrashed           (workers crash or meet unexpected errors, again and again)
│   └── PlanCrashed · SliceCrashed · TreeCrashed
├── LeaseLost             (another worker, a cancel or a delete took over)
└── SliceOver             (the slice's time is up; the next slice continues)

Each module of this package holds one branch or a few that belong together. Import all of them from here.
Foreign exceptions are mapped to these errors in `worker.sources`, `worker.embed`, `worker.llm` and `worker.vectors`,
where they enter.
"""

from __future__ import annotations

from schemas.errors.base import FoldexError
from schemas.errors.call_errors import (
    BodiesBusy,
    BodyTooSlow,
    Conflict,
    CrossSite,
    EstimateBusy,
    FilterMatchesNothing,
    HeadersTooLarge,
    Invalid,
    IssuerUnavailable,
    LastAdminKey,
    LinkUsed,
    ModelNotAllowed,
    ModelRefused,
    NotFound,
    NotLoopback,
    NoTree,
    ProjectBusy,
    RangeNotSatisfiable,
    ScopeMissing,
    SearchBusy,
    SearchSlow,
    ServerBusy,
    SessionNeeded,
    TokenInvalid,
    TokenUnusable,
    TooLarge,
    TooManyConnections,
    TooManyTools,
    TooManyValues,
    Unauthorized,
    UrlTooLong,
)
from schemas.errors.models import (
    EmbeddingError,
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnavailable,
    EmbeddingUnreadable,
    Excess,
    LlmError,
    LlmFailed,
    LlmNotConfigured,
    LlmRefused,
    LlmUnauthorized,
    LlmUnavailable,
    ModelUnavailable,
    RerankError,
    RerankNotConfigured,
    RerankUnavailable,
)
from schemas.errors.sources import (
    FileError,
    FileTooSlow,
    FolderElsewhere,
    FolderGone,
    SourceBusy,
    SourceError,
    SourceRefused,
    SourceUnavailable,
)
from schemas.errors.stores import (
    ContentsElsewhere,
    DiskFull,
    Locked,
    ReleaseBehind,
    SchemaBehind,
    StoreError,
    StoreRefused,
    StoreUnauthorized,
    StoreUnavailable,
    TextKeyMissing,
    VectorsElsewhere,
)
from schemas.errors.tree_errors import MissingDependency, TooManyLeaves, TooManyTokens, TreeError
from schemas.errors.work import LeaseLost, PlanCrashed, SliceCrashed, SliceOver, TaskCrashed, TreeCrashed

__all__ = [
    "BodiesBusy",
    "BodyTooSlow",
    "Conflict",
    "ContentsElsewhere",
    "CrossSite",
    "DiskFull",
    "EmbeddingError",
    "EmbeddingRefused",
    "EmbeddingUnauthorized",
    "EmbeddingUnavailable",
    "EmbeddingUnreadable",
    "EstimateBusy",
    "Excess",
    "FileError",
    "FileTooSlow",
    "FilterMatchesNothing",
    "FolderElsewhere",
    "FolderGone",
    "FoldexError",
    "HeadersTooLarge",
    "Invalid",
    "IssuerUnavailable",
    "LastAdminKey",
    "LeaseLost",
    "LinkUsed",
    "LlmError",
    "LlmFailed",
    "LlmNotConfigured",
    "LlmRefused",
    "LlmUnauthorized",
    "LlmUnavailable",
    "Locked",
    "MissingDependency",
    "ModelNotAllowed",
    "ModelRefused",
    "ModelUnavailable",
    "NoTree",
    "NotFound",
    "NotLoopback",
    "PlanCrashed",
    "ProjectBusy",
    "RangeNotSatisfiable",
    "ReleaseBehind",
    "RerankError",
    "RerankNotConfigured",
    "RerankUnavailable",
    "SchemaBehind",
    "ScopeMissing",
    "SearchBusy",
    "SearchSlow",
    "ServerBusy",
    "SessionNeeded",
    "SliceCrashed",
    "SliceOver",
    "SourceBusy",
    "SourceError",
    "SourceRefused",
    "SourceUnavailable",
    "StoreError",
    "StoreRefused",
    "StoreUnauthorized",
    "StoreUnavailable",
    "TaskCrashed",
    "TextKeyMissing",
    "TokenInvalid",
    "TokenUnusable",
    "TooLarge",
    "TooManyConnections",
    "TooManyLeaves",
    "TooManyTokens",
    "TooManyTools",
    "TooManyValues",
    "TreeCrashed",
    "TreeError",
    "Unauthorized",
    "UrlTooLong",
    "VectorsElsewhere",
]
