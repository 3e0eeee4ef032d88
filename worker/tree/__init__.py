"""Trees of summaries over an index: clusters, summaries, and the build that combines them."""
