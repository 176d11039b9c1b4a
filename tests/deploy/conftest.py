"""What tests of deployments share."""

import pytest

from mix2fld.deploy.mqtt_nodes import MqttNodes


@pytest.fixture
def all_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """No round begins without one of the four: who is away then is not asked in it."""
    wait_for = MqttNodes.wait_for
    monkeypatch.setattr(MqttNodes, "wait_for", lambda self, _, s: wait_for(self, 4, max(s, 60)))
