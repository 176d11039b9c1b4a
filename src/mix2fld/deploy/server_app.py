"""The Flower ServerApp: runs a run into its folder, or resumes the run that is in there."""

import logging

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from mix2fld.base.errors import Mix2fldError
from mix2fld.deploy.backoff import shorten_first_wait
from mix2fld.deploy.diary import Say, one_line
from mix2fld.deploy.flower_nodes import FlowerNodes
from mix2fld.deploy.serving import serve_run
from mix2fld.deploy.settings import Settings, read_settings
from mix2fld.engine.scenario import Scenario
from mix2fld.runs.results import RunResult

app = ServerApp()
logger = logging.getLogger("flwr")


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run what the run config describes; bad input is an error in one line."""
    shorten_first_wait()
    try:
        serve(grid, read_settings(context.run_config))
    except Mix2fldError as error:
        logger.error("mix2fld: %s", one_line(error))
        logger.addFilter(_without_trace)
        raise  # Flower then has the run fail, with these words


def serve(grid: Grid, settings: Settings) -> RunResult:
    """Run a run with the devices of ``grid``, or what is missing of it in its folder."""

    def connect(scenario: Scenario, run: str, say: Say) -> FlowerNodes:
        return FlowerNodes(grid, scenario, settings.timeout_s, run, say)

    return serve_run(settings, connect)


def _without_trace(record: logging.LogRecord) -> bool:
    """Keep to one line what Flower's log says of bad input."""
    if record.exc_info and isinstance(record.exc_info[1], Mix2fldError):
        record.exc_info = None
    return True
