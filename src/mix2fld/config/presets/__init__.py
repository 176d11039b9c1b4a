"""Named settings: links of standards, and classes of devices, every number with its source."""

from typing import Any

from mix2fld.config.presets.cellular import CELLULAR
from mix2fld.config.presets.devices import DEVICE_CLASSES
from mix2fld.config.presets.local import LOCAL
from mix2fld.config.presets.lorawan import LORAWAN
from mix2fld.config.presets.sourced import DeviceClass, Fields, Sourced, Standard, values

__all__ = [
    "DEVICE_CLASSES",
    "NAMED",
    "STANDARDS",
    "DeviceClass",
    "Fields",
    "Sourced",
    "Standard",
]

STANDARDS: dict[str, Standard] = {**CELLULAR, **LORAWAN, **LOCAL}
"""Every standard by its name as a preset."""

NAMED: dict[str, dict[str, Any]] = {
    **{
        name: {**values(DEVICE_CLASSES[standard.device].fields), **values(standard.fields)}
        for name, standard in STANDARDS.items()
    },
    **{name: values(kind.fields) for name, kind in DEVICE_CLASSES.items()},
}
"""Settings of every preset of this package; a standard comes with the class of its devices."""
