"""The table of tasks that need no code of one's own, and which of them a dataset asks for."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mix2fld.base.errors import InputError
from mix2fld.tasks.base import Task
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.next_token import NextToken
from mix2fld.tasks.regression import Regression

if TYPE_CHECKING:
    from mix2fld.config.settings import CommonSettings
    from mix2fld.dataset import Dataset

TASKS: dict[str, Callable[..., Task]] = {
    "classification": Classification,
    "next-token": NextToken,
    "regression": Regression,
}


def task_for(
    dataset: "Dataset", given: Task | None, settings: "CommonSettings | None" = None
) -> Task:
    """The task of a run: the given one, or labels or numbers as the dataset has them."""
    numbers = dataset.train_targets is not None
    if given is None and numbers:
        return Regression.of(dataset, settings)
    if given is None:
        return Classification(dataset.num_labels)
    if given.by_label == numbers:
        wanted, found = ("labels", "numbers") if given.by_label else ("numbers", "labels")
        raise InputError(
            field="task",
            value=given.name,
            hint=f"learns {wanted}; the dataset {dataset.name} has {found} as targets",
        )
    return given


def as_record(task: Task) -> dict[str, Any]:
    """A task of the table as plain values, from which a device makes the same one."""
    return {"task": task.name, **task.as_fields()}


def from_record(fields: Mapping[str, Any]) -> Task:
    """The task that these values describe; raises ``InputError`` for what describes none."""
    given = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    name = given.pop("task", None)
    if name not in TASKS:
        raise InputError(
            field="task", value=name, hint=f"no such task; must be one of {', '.join(TASKS)}"
        )
    try:
        return TASKS[name](**given)
    except (TypeError, ValueError) as error:
        hint = f"cannot be made of these ({error})"
        raise InputError(field="task", value=name, hint=hint) from None
