"""The order of hits: fusion, boosts, and models that rerank."""
