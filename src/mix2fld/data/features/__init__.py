"""Frozen networks: samples become vectors before a task sees them.

``with_features`` returns a dataset of vectors; ``features_of`` applies the network of a run to new
samples, on a device or wherever its model is used.
"""

from mix2fld.base.lazy import from_stub

__getattr__, __dir__, __all__ = from_stub(__name__, __file__)
