"""Pictures of models and of what analyses find: ``from livesvm import plot``."""

from livesvm.solvers.plot import *  # noqa: F403
