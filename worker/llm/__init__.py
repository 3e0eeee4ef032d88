"""Relevance of texts to a query: a score from 0 to 1 each, by a rerank model or by a language model."""
