"""Files of tests have names of their own: pytest collects one of each name."""

from collections import Counter

from places import TESTS


def test_no_two_files_of_tests_have_the_same_name() -> None:
    counts = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in counts.items() if count > 1] == []
