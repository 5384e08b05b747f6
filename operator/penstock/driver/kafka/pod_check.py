"""Tries the brokers from inside the driver's container, and looks at the checkpoint's volume.

`penstock doctor` runs `python3 -m penstock.driver.kafka.pod_check` there. It uses the standard
library only, because it shares the container's memory with a driver that runs.
"""

from __future__ import annotations

import concurrent.futures
import os
import socket
import sys
from collections.abc import Sequence

from penstock import __version__
from penstock.contract import naming
from penstock.contract.pod_check import BrokerCheck, PodCheck, Reach

_SECONDS = 3.0
# The C library asks each name server for five seconds, twice.
_NAME_SECONDS = 12.0


def check_pod(servers: Sequence[str], volume: str = naming.CHECKPOINT_DIR) -> PodCheck:
    """Tries all servers at the same time, and looks at the checkpoint's volume."""
    with concurrent.futures.ThreadPoolExecutor(max(1, len(servers))) as pool:
        brokers = tuple(pool.map(_check_broker, servers))
    size, used = _volume(volume)
    return PodCheck(__version__, brokers, size, used)


def _check_broker(server: str) -> BrokerCheck:
    host, _, port = server.rpartition("://")[2].rpartition(":")
    try:
        addresses = _resolve(host.strip("[]"), port)
    except TimeoutError:
        return BrokerCheck(server, Reach.NAME_SERVER_SILENT)
    except socket.gaierror as error:
        silent = error.errno in (socket.EAI_AGAIN, socket.EAI_FAIL)
        return BrokerCheck(server, Reach.NAME_SERVER_SILENT if silent else Reach.NAME_UNKNOWN)
    outcomes = [_connect(address) for address in addresses]
    # One address that answers is enough; a refusal says more than silence.
    order = (Reach.CONNECTED, Reach.REFUSED, Reach.NO_ANSWER)
    best = min(outcomes, key=order.index, default=Reach.NAME_UNKNOWN)
    return BrokerCheck(server, best, tuple(str(address[0]) for address in addresses))


def _resolve(host: str, port: str) -> list[tuple[str, int]]:
    """The addresses of a host. TimeoutError if the name server takes too long."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    try:
        asked = pool.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        answers = asked.result(_NAME_SECONDS)
    finally:
        pool.shutdown(wait=False)
    return list(dict.fromkeys((str(address[4][0]), int(address[4][1])) for address in answers))


def _connect(address: tuple[str, int]) -> Reach:
    try:
        with socket.create_connection(address, _SECONDS):
            return Reach.CONNECTED
    except ConnectionRefusedError:
        return Reach.REFUSED
    except OSError:
        return Reach.NO_ANSWER


def _volume(path: str) -> tuple[int, int]:
    """The size of a volume, and how much of it is used, in bytes; zeros if it cannot be read."""
    try:
        stats = os.statvfs(path)
    except OSError:
        return 0, 0
    return stats.f_blocks * stats.f_frsize, (stats.f_blocks - stats.f_bfree) * stats.f_frsize


if __name__ == "__main__":
    sys.stdout.write(check_pod(sys.argv[1:]).to_json() + "\n")
    sys.stdout.flush()
    # Not sys.exit: a thread may still wait for a name server.
    os._exit(0)
