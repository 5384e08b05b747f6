"""Java classes by name, without a question to the JVM.

`gateway.jvm.java.util.HashMap` asks the JVM at each dot, since each part may be a package or a
class. Threads that ask Kafka every second would do little else.
"""

from __future__ import annotations

from typing import Any


def java_class(gateway: Any, name: str) -> Any:
    """The class with this full name. Whether it exists shows when it is used."""
    from py4j.java_gateway import JavaClass

    return JavaClass(name, gateway._gateway_client)
