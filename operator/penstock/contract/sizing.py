"""From partitions to executors.

A continuous query runs one long task for each source partition. With fewer cores than partitions
some partitions starve without an error or a warning (Structured Streaming Programming Guide,
"Caveats"; measured in Spark 4.2), so total cores never fall below the partitions.
"""

from dataclasses import dataclass

from penstock.api.v1alpha1 import Source, StreamSpec


@dataclass(frozen=True)
class Size:
    """How many executors a query gets."""

    partitions: int
    executors: int
    cores_per_executor: int

    @property
    def cores(self) -> int:
        """Task slots in all."""
        return self.executors * self.cores_per_executor


@dataclass(frozen=True)
class TooFewExecutorsAllowed:
    """The stream's own maximum forbids the cores that its partitions need."""

    partitions: int
    executors_needed: int
    max_executors: int

    def __str__(self) -> str:
        return (
            f"{self.partitions} partitions need {self.executors_needed} executors, but "
            f"spec.executor.maxInstances is {self.max_executors}: raise it, or raise "
            f"spec.executor.cores"
        )


def size(partitions: int, spec: StreamSpec) -> Size | TooFewExecutorsAllowed:
    """The executors for a source of so many partitions; at least one partition is assumed."""
    executor = spec.executor
    needed = -(-max(partitions, 1) // executor.cores)
    if executor.max_instances is not None and needed > executor.max_instances:
        return TooFewExecutorsAllowed(partitions, needed, executor.max_instances)
    return Size(partitions, max(needed, executor.min_instances), executor.cores)


def default_parallelism(source: Source, conf: dict[str, str]) -> int | None:
    """What Spark's default parallelism must be for this source; None if that does not matter.

    The socket source makes as many partitions as the session's default parallelism, which would be
    all the cores there are (TextSocketContinuousStream and TextSocketMicroBatchStream).
    """
    if source.socket is None:
        return None
    own = conf.get("spark.default.parallelism", "")
    return int(own) if own.isdecimal() and int(own) > 0 else 1


def stated_partitions(source: Source, conf: dict[str, str]) -> int:
    """The partitions of a source that is not asked for them."""
    if source.rate is not None:
        return source.rate.num_partitions
    if source.custom is not None:
        return source.custom.num_partitions
    return default_parallelism(source, conf) or 1
