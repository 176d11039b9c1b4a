from mix2fld.base.errors import InputError as InputError
from mix2fld.config.grid import Grid as Grid
from mix2fld.config.settings import Config as Config
from mix2fld.data.hugging_face import dataset_from_hugging_face as dataset_from_hugging_face
from mix2fld.data.hugging_face import dataset_to_hugging_face as dataset_to_hugging_face
from mix2fld.data.hugging_face import dataset_with_partitions as dataset_with_partitions
from mix2fld.data.tables import dataset_from_table as dataset_from_table
from mix2fld.data.text import next_characters as next_characters
from mix2fld.protocols.base import Protocol as Protocol
from mix2fld.protocols.table import PROTOCOLS as PROTOCOLS
from mix2fld.runs.link_plan import plan_link as plan_link
from mix2fld.runs.load_model import load_model as load_model
from mix2fld.runs.reader import load_runs as load_runs
from mix2fld.runs.results import RunResult as RunResult
from mix2fld.runs.simulation import run as run
from mix2fld.tasks.base import Task as Task
from mix2fld.tasks.classification import Classification as Classification
from mix2fld.tasks.metric import Metric as Metric
from mix2fld.tasks.next_token import NextToken as NextToken
from mix2fld.types import Dataset as Dataset
from mix2fld.types import Delivery as Delivery
from mix2fld.types import Model as Model

__version__: str
