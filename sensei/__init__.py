"""sensei: the guide along the torch-koans."""

from sensei.blank import Unsolved, __, answer, koan

__all__ = ["Unsolved", "__", "answer", "koan"]
