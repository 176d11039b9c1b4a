"""Named settings: links of standards, and classes of devices, every number with its source."""

from typing import Any

from mix2fld.config.presets.lorawan import LORAWAN
from mix2fld.config.presets.sourced import DEVICE_CLASSES, LINKS, Standard, values

CELLULAR = ("nb-iot", "lte-m", "redcap", "leo")
STANDARDS: dict[str, Standard] = {
    **{name: LINKS[name] for name in CELLULAR},
    **LORAWAN,
    **{name: link for name, link in LINKS.items() if name not in CELLULAR},
}
"""Every standard by its name as a preset."""

NAMED: dict[str, dict[str, Any]] = {
    **{
        name: {**values(DEVICE_CLASSES[standard.device].fields), **values(standard.fields)}
        for name, standard in STANDARDS.items()
    },
    **{name: values(kind.fields) for name, kind in DEVICE_CLASSES.items()},
}
"""Settings of every preset of this package; a standard comes with the class of its devices."""
