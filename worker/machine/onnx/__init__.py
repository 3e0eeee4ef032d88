"""Computes with ONNX Runtime, where it is installed: graphs in its format, and sessions that run them."""
