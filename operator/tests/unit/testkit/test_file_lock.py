"""The locks of one machine: who waits for whom."""

import threading

from testkit.file_lock import file_lock


def test_who_shares_a_lock_holds_it_beside_others_and_who_does_not_waits_for_all_of_them() -> None:
    alone = threading.Event()

    def hold_alone() -> None:
        with file_lock("test"):
            alone.set()

    waiting = threading.Thread(target=hold_alone)
    with file_lock("test", shared=True), file_lock("test", shared=True):
        waiting.start()
        assert not alone.wait(0.2)
    assert alone.wait(10)
    waiting.join()
