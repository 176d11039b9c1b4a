"""The task of settings, and the sizes of its payloads, without JAX."""

from mix2fld.config.settings import CommonSettings, Config
from mix2fld.data import dataset_sizes, load_dataset
from mix2fld.tasks.base import Task
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.known_shapes import Shapes
from mix2fld.tasks.learning import Sizes, dimensions
from mix2fld.tasks.table import task_for
from mix2fld.types import SampleFormat


def samples_and_task(settings: CommonSettings) -> tuple[SampleFormat, Task]:
    """What samples are, and the task; a dataset known by name is not loaded for it."""
    samples, num_labels = dataset_sizes(settings.data)
    if num_labels:
        return samples, Classification(num_labels)
    return samples, task_for(load_dataset(settings.data), None, settings)


def sizes_for(task: Task, settings: Config, samples: SampleFormat, shapes: Shapes = ()) -> Sizes:
    """The sizes of payloads of a task, for a model with weights of these shapes."""
    own = (task.groups, shapes, task.outputs, task.numbers)
    return Sizes(settings, dimensions(settings.seeding, samples, *own), task)
