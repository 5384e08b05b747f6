"""Total cores never fall below the partitions."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.sizing import Size, TooFewExecutorsAllowed, size
from testkit.streams.specs import spec

partitions = st.integers(0, 5000)
cores = st.integers(1, 64)


@given(partitions, cores, st.integers(1, 20))
def test_cores_cover_the_partitions(partitions: int, cores: int, least: int) -> None:
    """Enough executors, no more than needed beyond the minimum."""
    sized = size(partitions, spec(executor={"cores": cores, "minInstances": least}))
    assert isinstance(sized, Size)
    assert sized.cores >= partitions
    assert sized.executors >= least
    assert sized.executors == least or (sized.executors - 1) * cores < partitions


@given(partitions, cores, st.integers(1, 20))
def test_a_maximum_is_kept_or_reported(partitions: int, cores: int, most: int) -> None:
    """Never a size that would starve a partition without a word."""
    sized = size(partitions, spec(executor={"cores": cores, "maxInstances": most}))
    if isinstance(sized, Size):
        assert sized.executors <= most
        assert sized.cores >= partitions
    else:
        assert isinstance(sized, TooFewExecutorsAllowed)
        assert most * cores < partitions
        assert "spec.executor.maxInstances" in str(sized)
