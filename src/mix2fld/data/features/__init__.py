"""Frozen networks: samples become vectors before a task sees them.

``with_features`` returns a dataset of vectors; ``features_of`` applies the network of a run to new
samples, on a device or wherever its model is used.
"""

from mix2fld.base.lazy import names_of

__all__ = ["NETWORKS", "Network", "as_samples", "features_of", "find_network", "with_features"]

_HOMES = {
    "NETWORKS": "catalogue",
    "Network": "network",
    "as_samples": "text",
    "features_of": "compute",
    "find_network": "find",
    "with_features": "step",
}
__getattr__ = names_of(__name__, _HOMES)
