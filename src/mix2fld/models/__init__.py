"""Models: two plain functions each, by name or custom; or a PyTorch module.

What needs JAX is imported on first use: the processes that train PyTorch modules do without.
"""

from mix2fld.base.lazy import from_stub

__getattr__, __dir__, __all__ = from_stub(__name__, __file__)
