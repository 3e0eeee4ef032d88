"""Measures the listing of a bucket that takes a fifth of a second for a page: as one range of keys, and as several.

`FILES=1000000` measures another number of objects, with 500 in a folder and with all in one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from api.stack.postgres import postgres
from schemas.content.source import S3Source
from tests.bench.size.files import sizes
from tests.bench.size.listing import measure
from tests.fakes.buckets import KEYS
from tests.fakes.listed_bucket import listed_bucket
from worker.resources import Resources
from worker.settings import Settings
from worker.state.migrate import migrate

#: Seconds that each request takes besides its work.
DELAY_SECONDS = 0.2

#: What is measured: its title, whether folders can be listed, and how many objects each has.
CASES = [
    ("one range, as folders cannot be listed:", False, 500),
    ("ranges of keys:", True, 500),
    ("ranges of keys, all in one folder:", True, 1_000_000_000),
]


def run(place: Path) -> None:
    for size in sizes():
        for title, lists_folders, objects_in_folder in CASES:
            contents = {f"d{number // objects_in_folder}/{number}.txt": b"note" for number in range(size)}
            print(title, flush=True)
            with (
                pytest.MonkeyPatch.context() as environment,
                listed_bucket(contents, delay_seconds=DELAY_SECONDS, lists_folders=lists_folders) as bucket,
                postgres(place / f"bucket-{size}-{lists_folders}-{objects_in_folder}") as url,
            ):
                for name, value in KEYS.items():
                    environment.setenv(name, value)
                migrate(url)
                settings = Settings(
                    database_url=url, foldex_home=place / "home", auth="off", s3_endpoint_url=bucket.url
                )
                measure(Resources(settings), S3Source(kind="s3", bucket="any-bucket", prefix=""), size)
                print(f"    {bucket.listings} requests, at most {bucket.at_once} at once", flush=True)
