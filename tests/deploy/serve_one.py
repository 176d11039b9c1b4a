"""A server in a process of its own, to be killed: folder, port and config are its arguments."""

import sys
from pathlib import Path

from mix2fld.config.settings import Config
from mix2fld.deploy.edge.__main__ import broker_address
from mix2fld.deploy.mqtt_server import serve_mqtt
from mix2fld.deploy.settings import Settings
from mix2fld_lab.trials.processes import HOST

if __name__ == "__main__":
    folder, port, config = sys.argv[1:]
    address = broker_address(f"{HOST}:{port}", Path(folder) / "keys", "server")
    settings = Settings(Config.model_validate_json(config), Path(folder) / "runs", 60.0, 60.0)
    serve_mqtt(settings, address)
