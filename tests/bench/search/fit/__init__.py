"""Fits the weights of ranking to groups of questions of many kinds."""
