"""What the operator makes of refusals and foreign objects, with a real API server."""

from __future__ import annotations

import json
from typing import Any

from penstock.cluster import kinds
from penstock.contract import naming
from testkit.controller import samples
from testkit.controller.control_plane import Namespace
from testkit.wait import wait_for_async


async def reason(space: Namespace, condition: str, expected: str) -> str:
    """Waits until a condition has this reason, and returns its message."""

    async def found() -> str:
        now = await space.condition(condition)
        return str(now["message"]) if now.get("reason") == expected else ""

    return str(await wait_for_async(f"{condition} with {expected}", found))


def webhook(name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "policy.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [
                    {
                        "apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"],
                        "resources": ["statefulsets"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1,
            }
        ],
    }  # fmt: skip


async def test_a_failing_admission_webhook_is_reported_and_ready_stays_true(
    space: Namespace,
) -> None:
    async with space.operator():
        await space.apply()
        await space.run_driver()
        await space.wait_ready()
        hook = json.dumps(webhook(space.name, space.name))
        await space.kubectl("apply", "-f", "-", stdin=hook)
        # The server needs a moment to call it, and the edit must not come before.
        owner = f"statefulset/{naming.driver_name(samples.NAME)}"

        async def refuses() -> bool:
            answer = await space.kubectl(
                "annotate", owner, "a=b", "--dry-run=server", "--overwrite"
            )
            return "failed calling webhook" in answer

        await wait_for_async("the webhook", lambda: failing(refuses))
        await space.apply(executor={"cores": 2})
        message = await reason(space, "Reconciling", "ApplyFailed")
        assert "policy.example.com" in message
        assert (await space.condition("Ready"))["status"] == "True"
        await space.kubectl("delete", "validatingwebhookconfiguration", space.name)
        old = await space.pod()
        assert old is not None
        await space.replaced(old)


async def failing(check: Any) -> bool:
    try:
        return bool(await check())
    except Exception as error:
        return "failed calling webhook" in str(error)


async def test_a_quota_that_refuses_the_pod_is_quoted(space: Namespace) -> None:
    """Only an event of the StatefulSet says so."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "0"}},
    }
    await space.kubectl("apply", "-f", "-", stdin=json.dumps(quota))
    # What the controller of quotas would write; it does not run here.
    status = json.dumps({"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}})
    await space.kubectl(
        "patch", "resourcequota", "small", "--subresource=status", "--type=merge", "-p", status
    )
    async with space.operator():
        await space.apply()
        message = await reason(space, "Ready", "FailedCreate")
        assert "exceeded quota: small" in message
        await space.kubectl("delete", "resourcequota", "small")


async def test_a_claim_of_somebody_else_is_used_only_if_the_spec_says_so(space: Namespace) -> None:
    name = naming.checkpoint_claim_name(samples.NAME)
    foreign = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }
    await space.kubectl("create", "-f", "-", stdin=json.dumps(foreign))
    before = await space.get(kinds.CLAIM, name)
    async with space.operator():
        await space.apply()
        assert name in await reason(space, "Stalled", "ForeignObject")
        assert await space.get(kinds.CLAIM, name) == before
        await space.apply(checkpoint={"volume": {"size": "5Gi", "adopt": True}})
        await space.run_driver()
        await space.wait_ready()
