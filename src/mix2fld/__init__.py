"""Federated learning and distillation over fading, asymmetric links.

For example::

    import mix2fld
    results = mix2fld.run(mix2fld.Grid.of(protocols=("fl", "mix2fld"), rounds=3))
"""

from typing import TYPE_CHECKING

from mix2fld.base.lazy import names_of

if TYPE_CHECKING:
    from mix2fld.base.errors import InputError
    from mix2fld.config.grid import Grid
    from mix2fld.config.settings import Config
    from mix2fld.data.tables import dataset_from_table
    from mix2fld.protocols.base import Protocol
    from mix2fld.protocols.table import PROTOCOLS
    from mix2fld.runs.link_plan import plan_link
    from mix2fld.runs.model import load_model
    from mix2fld.runs.reader import load_runs
    from mix2fld.runs.results import RunResult
    from mix2fld.runs.simulation import run
    from mix2fld.tasks.base import Task
    from mix2fld.tasks.classification import Classification
    from mix2fld.tasks.metric import Metric
    from mix2fld.types import Dataset, Delivery, Model

__version__ = "0.2.0"
__all__ = [
    "PROTOCOLS",
    "Classification",
    "Config",
    "Dataset",
    "Delivery",
    "Grid",
    "InputError",
    "Metric",
    "Model",
    "Protocol",
    "RunResult",
    "Task",
    "dataset_from_table",
    "load_model",
    "load_runs",
    "plan_link",
    "run",
]

_HOMES = {
    "Config": "config.settings",
    "Grid": "config.grid",
    "InputError": "base.errors",
    "dataset_from_table": "data.tables",
    "load_model": "runs.model",
    "load_runs": "runs.reader",
    "PROTOCOLS": "protocols.table",
    "Protocol": "protocols.base",
    "RunResult": "runs.results",
    "plan_link": "runs.link_plan",
    "run": "runs.simulation",
    "Classification": "tasks.classification",
    "Metric": "tasks.metric",
    "Task": "tasks.base",
    "Dataset": "types",
    "Delivery": "types",
    "Model": "types",
}
__getattr__ = names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
