"""Benchmarks. `make bench` prints their figures; no test asserts them."""
