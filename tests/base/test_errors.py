"""Errors carry what they say: field, value and hint."""

import pickle

import pytest

from mix2fld.base.errors import DamagedError, InputError, Mix2fldError, TransportLostError
from mix2fld.engine.divergence import DivergedError
from mix2fld.protocols.table import get_protocol


def test_bad_input_has_its_parts() -> None:
    error = InputError(field="devices", value=0, hint="must be 1 or more")
    assert str(error) == "devices = 0: must be 1 or more"
    assert str(InputError(field="out", hint="must name a file")) == "out: must name a file"
    assert str(InputError("stopped")) == "stopped"
    again = pickle.loads(pickle.dumps(error))
    assert (again.field, again.value, again.hint) == ("devices", 0, "must be 1 or more")
    assert str(error.renamed("devices", "nodes")) == "nodes = 0: must be 1 or more"
    assert str(error.renamed("dataset", "data")) == str(error)


def test_the_package_raises_them_with_their_parts() -> None:
    with pytest.raises(InputError) as raised:
        get_protocol("mixfl")
    assert (raised.value.field, raised.value.value) == ("protocols", "'mixfl'")
    assert "did you mean 'mixfld'" in raised.value.hint


@pytest.mark.parametrize("other", [DivergedError, DamagedError, TransportLostError])
def test_what_happens_to_a_run_is_not_bad_input(other: type[Exception]) -> None:
    assert issubclass(other, Mix2fldError)
    assert not issubclass(other, InputError)
