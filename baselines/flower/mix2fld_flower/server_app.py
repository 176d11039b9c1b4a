"""The ServerApp: mix2fld's server, over the paper's link, with the nodes of a Flower federation."""

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from mix2fld.deploy.diary import Say
from mix2fld.deploy.flower_nodes import FlowerNodes
from mix2fld.deploy.serving import serve_run
from mix2fld.engine.scenario import Scenario
from mix2fld.links import make_link
from mix2fld_flower.settings import settings_of

app = ServerApp()
ASK_S = 600.0


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the protocol that the run config describes; a run that exists is resumed."""
    settings = settings_of(context.run_config)

    def connect(scenario: Scenario, run: str, say: Say) -> FlowerNodes:
        return Partitions(grid, scenario, settings.timeout_s, run, say)

    link = make_link(settings.config, settings.config.data.devices)
    result = serve_run(settings, connect, link=link)
    accuracy = result.summary["scores"]["mean"]
    print(f"{result.config.run_name}: mean accuracy of the clients {100 * accuracy:.1f} %")


class Partitions(FlowerNodes):
    """FlowerNodes that are known by the partition that they hold, not by a registered key."""

    def online(self) -> dict[int, int]:
        """The node of every partition; each is asked once."""
        if len(self._found) < self._devices:
            self._found = self._ask_all()
        return self._found

    def _ask_all(self) -> dict[int, int]:
        nodes = list(self._grid.get_node_ids())
        asked = [
            Message(RecordDict({"ask": ConfigRecord({"partition": True})}), node, "query.partition")
            for node in nodes
        ]
        replies = self._grid.send_and_receive(asked, timeout=ASK_S) if asked else []
        found: dict[int, int] = {}
        for reply in replies:
            if not reply.has_error():
                number = reply.content["partition"]["partition"]
                found[int(number)] = reply.metadata.src_node_id
        return {number: node for number, node in found.items() if number < self._devices}
