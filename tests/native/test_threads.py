"""Work shared out to threads: results in their order, faults of any, and work within work."""

import threading

import pytest

from mix2fld.native import threads


@pytest.fixture(params=["1", "2", "5"])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("MIX2FLD_CORES", request.param)
    return int(request.param)


def test_results_come_in_the_order_of_their_items(cores: int) -> None:
    assert threads.in_threads(lambda n: n * n, range(100)) == [n * n for n in range(100)]
    assert threads.in_threads(lambda n: n, []) == []


def test_no_more_threads_than_cores_or_items_work_at_once(cores: int) -> None:
    together = min(cores, 3)
    meeting = threading.Barrier(together, timeout=20)
    names = threads.in_threads(
        lambda _: (meeting.wait(), threading.current_thread().name)[1], range(together)
    )
    assert len(set(names)) == together
    assert threading.current_thread().name in names


def test_the_first_fault_ends_the_work(cores: int) -> None:
    done = []

    def work(number: int) -> None:
        if number == 3:
            raise ValueError("three")
        done.append(number)

    with pytest.raises(ValueError, match="three"):
        threads.in_threads(work, range(1000))
    assert len(done) < 1000
    assert threads.in_threads(lambda n: n, range(4)) == [0, 1, 2, 3]


def test_work_within_work_is_done(cores: int) -> None:
    """No thread waits for one that waits for it."""
    inner = threads.in_threads(lambda n: sum(threads.in_threads(lambda m: n * m, range(5))), [1, 2])
    assert inner == [10, 20]
