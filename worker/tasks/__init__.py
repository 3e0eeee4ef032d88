"""The Celery tasks: lease, call a step, record. A message carries nothing of value but an id.

Celery imports this package by its name, so the package imports every module that registers a task or a signal handler.
"""

from worker.tasks import index, plan, signals, tree, upkeep

__all__ = ["index", "plan", "signals", "tree", "upkeep"]
