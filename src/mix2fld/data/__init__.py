"""Datasets: the catalogue, downloads, the cache, custom files, and partitions among devices.

``load_dataset`` returns a dataset, ``device_parts`` the training samples of each device, and
``measured_samples`` the samples that models are measured on.
"""

from mix2fld.base.lazy import from_stub

__getattr__, __dir__, __all__ = from_stub(__name__, __file__)
