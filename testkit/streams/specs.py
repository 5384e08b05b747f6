"""Moved to testkit.streams.streams."""

from testkit.streams.streams import KAFKA_TO_KAFKA as KAFKA_TO_KAFKA
from testkit.streams.streams import RATE_TO_CONSOLE as RATE_TO_CONSOLE
from testkit.streams.streams import changed as changed
from testkit.streams.streams import spec as spec
