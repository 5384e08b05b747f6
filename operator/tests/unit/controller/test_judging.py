"""No tenant's text can stop the operator for another tenant."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.api.problem import Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.cluster import kinds
from penstock.cluster.kinds import Key
from penstock.controller.kubernetes.object_cache import ObjectCache
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.reconciler import Reconciler
from penstock.validation import spec_check
from penstock.validation.text_sandbox import judge_texts
from testkit.controller import samples
from testkit.controller.fake_kubernetes_api import Clock, FakeKubernetesApi


@pytest.mark.proves("decisions/bounded-tenants.md")
async def test_a_stream_is_reconciled_while_another_tenants_text_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The judge blocks until the other stream has its children: in the event loop, for ever."""
    started, done = threading.Event(), threading.Event()

    def judge(spec: StreamSpec) -> tuple[Problem, ...]:
        if "bomb" in str(spec.transform.sql):
            started.set()
            assert done.wait(30), "the event loop waits for the judge"
        return judge_texts(spec)

    monkeypatch.setattr(spec_check, "judge_texts", judge)
    clock = Clock()
    api = FakeKubernetesApi(clock)
    api.put(samples.stream())
    bomb = samples.stream(transform={"sql": "SELECT 'bomb' AS value FROM source"})
    bomb["metadata"]["namespace"] = "theirs"
    api.put(bomb)
    reconciler = Reconciler(api, ObjectCache(api), OperatorMetrics(), samples.SETTINGS, clock)
    theirs = asyncio.create_task(reconciler.reconcile(Key("theirs", samples.NAME)))
    await asyncio.to_thread(started.wait, 30)
    await reconciler.reconcile(Key("default", samples.NAME))
    assert api.has(kinds.STATEFUL_SET, f"{samples.NAME}-driver")
    assert not theirs.done()
    done.set()
    await theirs
    assert api.has(kinds.STATEFUL_SET, f"{samples.NAME}-driver", "theirs")
