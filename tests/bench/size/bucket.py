"""Measures the listing of a bucket that takes a fifth of a second for a page: as one range of keys, and as several.

`FILES=1000000` measures another number of objects, of which 500 are in a folder.
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


def run(place: Path) -> None:
    for size in sizes():
        contents = {f"d{number // 500}/{number}.txt": b"note" for number in range(size)}
        for lists_folders in (False, True):
            print("ranges of keys:" if lists_folders else "one range, as folders cannot be listed:", flush=True)
            with (
                pytest.MonkeyPatch.context() as environment,
                listed_bucket(contents, delay_seconds=DELAY_SECONDS, lists_folders=lists_folders) as bucket,
                postgres(place / f"bucket-{size}-{lists_folders}") as url,
            ):
                for name, value in KEYS.items():
                    environment.setenv(name, value)
                migrate(url)
                settings = Settings(
                    database_url=url, foldex_home=place / "home", auth="off", s3_endpoint_url=bucket.url
                )
                measure(Resources(settings), S3Source(kind="s3", bucket="any-bucket", prefix=""), size)
                print(f"    {bucket.listings} requests, at most {bucket.at_once} at once", flush=True)
