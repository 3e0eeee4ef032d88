"""Ranks hits: fusion, boosts and reranking models."""
