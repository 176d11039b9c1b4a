"""Federated learning and distillation over fading, asymmetric links.

For example::

    import mix2fld
    results = mix2fld.run(mix2fld.Grid.of(protocols=("fl", "mix2fld"), rounds=3))
"""

from mix2fld.base.lazy import from_stub

__version__ = "0.3.0"
__getattr__, __dir__, __all__ = from_stub(__name__, __file__)
