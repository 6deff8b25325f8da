from support.fixtures import roomy, world

__all__ = ["roomy", "world"]
