"""Total cores never fall below the partitions; CPU and memory of the pods with their defaults."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from penstock.api.v1alpha1.driver_and_executor import Executor
from penstock.contract.sizing import (
    Cpu,
    Memory,
    Size,
    TooFewExecutorsAllowed,
    driver_cpu,
    driver_memory,
    executor_cpu,
    executor_memory,
    producer_buffer,
    size,
)
from testkit.streams.streams import MICRO_BATCH, spec

MI = 2**20

partitions = st.integers(0, 5000)
cores = st.integers(1, 64)


@given(partitions, cores, st.integers(1, 20))
def test_cores_cover_the_partitions(partitions: int, cores: int, least: int) -> None:
    """Enough executors, and above the minimum no more than needed."""
    sized = size(partitions, spec(executor={"cores": cores, "minInstances": least}))
    assert isinstance(sized, Size)
    assert sized.cores >= partitions
    assert sized.executors >= least
    assert sized.executors == least or (sized.executors - 1) * cores < partitions


@given(partitions, cores, st.integers(1, 20))
def test_a_maximum_is_respected_or_reported(partitions: int, cores: int, most: int) -> None:
    """A size never leaves a partition without a core."""
    sized = size(partitions, spec(executor={"cores": cores, "maxInstances": most}))
    if isinstance(sized, Size):
        assert sized.executors <= most
        assert sized.cores >= partitions
    else:
        assert isinstance(sized, TooFewExecutorsAllowed)
        assert most * cores < partitions
        assert "spec.executor.maxInstances" in str(sized)


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        ({}, Memory(1024, 1024, 512, 512)),
        ({"resources": {"limits": {"memory": "2Gi"}}}, Memory(2048, 2048, 512, 1536)),
        ({"resources": {"requests": {"memory": "2Gi"}}}, Memory(2048, 2048, 512, 1536)),
        (
            {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}},
            Memory(1024, 2048, 512, 1536),
        ),
        ({"memoryOverhead": "1Gi"}, Memory(1536, 1536, 1024, 512)),
        ({"resources": {"limits": {"memory": 2_000_000_000}}}, Memory(1907, 1907, 512, 1395)),
    ],
)
def test_the_drivers_heap_is_its_memory_limit_without_the_overhead(
    driver: dict[str, Any], expected: Memory
) -> None:
    """Limit and request default to each other. In MiB, rounded down."""
    assert driver_memory(spec(driver=driver)) == expected


@pytest.mark.parametrize(
    ("executor", "expected"),
    [
        ({}, Memory(1408, 1408, 384, 1024)),
        ({"resources": {"limits": {"memory": "864Mi"}}}, Memory(864, 864, 384, 480)),
        ({"resources": {"requests": {"memory": "10000Mi"}}}, Memory(10000, 10000, 1000, 9000)),
        ({"memoryOverhead": "400Mi"}, Memory(1408, 1408, 400, 1008)),
    ],
)
def test_an_executors_overhead_is_a_tenth_of_its_memory_and_at_least_384_mebibytes(
    executor: dict[str, Any], expected: Memory
) -> None:
    """Spark's own factor and minimum, as a part of the container's memory."""
    assert executor_memory(spec(executor=executor)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"executor": {"mode": "Pods"}}, Memory(1536, 1536, 512, 1024)),
        ({"executor": {"cores": 1}}, Memory(1536, 1536, 512, 1024)),
        ({"executor": {"mode": "Auto", "cores": 2}}, Memory(1024, 1024, 512, 512)),
        ({"executor": {"mode": "InDriver"}}, Memory(1024, 1024, 512, 512)),
        # As the API server's rule about the heap has it.
        ({"driver": {"memoryOverhead": "600Mi"}}, Memory(1536, 1536, 600, 936)),
        ({"transform": {"python": {"function": "m:f"}}}, Memory(1536, 1536, 1024, 512)),
        (
            {
                "transform": {"python": {"function": "m:f"}},
                "driver": {"resources": {"requests": {"memory": "1Gi"}}},
            },
            Memory(1024, 1024, 544, 480),
        ),
        (
            {"transform": {"python": {"function": "m:f"}}, "executor": {"mode": "Pods"}},
            Memory(1536, 1536, 512, 1024),
        ),
    ],
)
def test_a_driver_has_memory_for_what_may_run_in_it(
    fields: dict[str, Any], expected: Memory
) -> None:
    assert driver_memory(spec(**fields)) == expected


@pytest.mark.parametrize(
    ("fields", "partitions", "state_tasks", "expected"),
    [
        ({}, 0, 0, Size(0, 0, 1, 1)),
        ({}, 12, 4, Size(12, 0, 16, 16)),
        ({}, 12, 5, Size(12, 17, 1, 17)),
        ({"transform": {"python": {"function": "m:f"}}}, 4, 0, Size(4, 0, 4, 4)),
        ({"transform": {"python": {"function": "m:f"}}}, 5, 0, Size(5, 5, 1, 5)),
        ({"executor": {"mode": "InDriver"}}, 100, 0, Size(100, 0, 100, 100)),
        ({"executor": {"mode": "InDriver"}, "trigger": MICRO_BATCH}, 100, 0, Size(100, 0, 16, 100)),
        ({"trigger": MICRO_BATCH}, 17, 0, Size(17, 17, 1, 17)),
        ({"executor": {"mode": "Pods"}}, 1, 0, Size(1, 1, 1, 1)),
        ({"executor": {"cores": 4}}, 4, 0, Size(4, 1, 4, 4)),
        ({"executor": {"mode": "Auto", "cores": 4}}, 4, 0, Size(4, 0, 4, 4)),
        ({"executor": {"mode": "Auto", "cores": 4}}, 20, 0, Size(20, 5, 4, 20)),
        ({"sparkConf": {"spark.kubernetes.executor.label.team": "a"}}, 1, 0, Size(1, 1, 1, 1)),
        ({"sparkConf": {"spark.sql.shuffle.partitions": "3"}}, 1, 0, Size(1, 0, 1, 1)),
    ],
)
def test_tasks_run_in_the_driver_while_they_are_few_and_nothing_asks_for_executors(
    fields: dict[str, Any], partitions: int, state_tasks: int, expected: Size
) -> None:
    sized = size(partitions, spec(**fields), state_tasks)
    assert sized == expected


def test_every_other_field_of_executors_asks_for_pods() -> None:
    """In the models, and in the API server's rule about InDriver."""
    others = {to_camel(name) for name in Executor.model_fields} - {"mode"}
    (rule,) = [it for it in Executor.rules if "InDriver" in it.predicate.cel]
    assert set(re.findall(r"has\(self\.(\w+)\)", rule.predicate.cel)) == {*others, "mode"}


def test_all_buffers_of_producers_fit_into_a_quarter_of_the_heap() -> None:
    for fields, slots, expected in (
        ({}, 16, 8),
        ({}, 1, 32),
        ({"executor": {"mode": "InDriver"}}, 100, 4),  # less would hold no record of a megabyte
        ({"executor": {"cores": 16}}, 16, 16),
    ):
        it = spec(**fields)
        sized = size(slots, it)
        assert isinstance(sized, Size)
        assert producer_buffer(it, sized) == expected << 20


PYTHON: list[dict[str, Any]] = [
    {"transform": {"python": {"function": "module:function"}}},
    {"source": {"custom": {"format": "module:Class"}}},
    {"sink": {"custom": {"format": "module:Class"}}},
]


@pytest.mark.parametrize("python", PYTHON)
def test_with_python_the_overhead_is_40_percent_of_the_heap(python: dict[str, Any]) -> None:
    """As Spark on Kubernetes: 4Gi of heap and 40% of it."""
    executor = {"resources": {"limits": {"memory": f"{4096 + 1639}Mi"}}}
    memory = executor_memory(spec(executor=executor, **python))
    assert (memory.heap, memory.overhead) == (4096, 1639)
    assert executor_memory(spec(executor={"memoryOverhead": "384Mi"}, **python)).overhead == 384
    small = executor_memory(spec(executor={"resources": {"limits": {"memory": "1Gi"}}}, **python))
    assert small.overhead == 384


def test_a_data_source_of_the_jvm_needs_no_memory_for_python() -> None:
    custom = {"custom": {"format": "com.example.Netcat"}}
    executor = {"resources": {"limits": {"memory": "10000Mi"}}}
    assert executor_memory(spec(executor=executor, source=custom, sink=custom)).overhead == 1000


@given(
    st.integers(864 * MI, 10**12),
    st.none() | st.integers(MI, 384 * MI),
    st.sampled_from([{}, PYTHON[0]]),
)
def test_heap_and_overhead_fill_the_container_exactly(
    limit: int, overhead: int | None, python: dict[str, Any]
) -> None:
    """Spark requests their sum for an executor."""
    executor: dict[str, Any] = {"resources": {"limits": {"memory": limit}}}
    if overhead is not None:
        executor["memoryOverhead"] = overhead
    memory = executor_memory(spec(executor=executor, **python))
    assert memory.heap + memory.overhead == memory.limit == limit // MI
    assert memory.heap >= 480


@pytest.mark.parametrize(
    ("resources", "driver", "executor"),
    [
        ({}, Cpu("500m", None), Cpu("2", None)),
        ({"requests": {"cpu": "100m"}}, Cpu("100m", None), Cpu("100m", None)),
        ({"limits": {"cpu": 4}}, Cpu("500m", "4"), Cpu("2", "4")),
        ({"limits": {"cpu": "200m"}}, Cpu("200m", "200m"), Cpu("200m", "200m")),
        ({"requests": {"cpu": 1}, "limits": {"cpu": "3"}}, Cpu("1", "3"), Cpu("1", "3")),
    ],
)
def test_a_cpu_request_defaults_to_500m_or_the_cores_and_never_exceeds_the_limit(
    resources: dict[str, Any], driver: Cpu, executor: Cpu
) -> None:
    """Kubernetes would refuse a pod whose request is above its limit."""
    it = spec(driver={"resources": resources}, executor={"cores": 2, "resources": resources})
    assert (driver_cpu(it), executor_cpu(it)) == (driver, executor)
