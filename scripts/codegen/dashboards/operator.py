"""The dashboard of the operator: does it act, and what slows it down?"""

from __future__ import annotations

from scripts.codegen.dashboards.grafana import Dashboard, Panel, Row, Variable
from scripts.codegen.dashboards.shared import quantiles

OPERATOR = Dashboard(
    name="operator",
    title="Penstock / Operator",
    description="The operator: does it act, and what slows it down?",
    chosen='namespace="$operator_namespace"',
    variables=(
        Variable(
            "operator_namespace",
            "Operator's namespace",
            "label_values(penstock_operator_leader, namespace)",
        ),
    ),
    rows=(
        Row(
            "Does it act?",
            (
                Panel(
                    "Who leads?",
                    "Good: one pod at any time. None: runbook PenstockLeaderLost. Frequent "
                    "changes: the API server is slow, or the pods are short of CPU.",
                    {"{{pod}}": "max by (pod) (penstock_operator_leader{<chosen>}) == 1"},
                    kind="state-timeline",
                ),
                Panel(
                    "Which versions run?",
                    "Good: one, unless an upgrade is under way.",
                    {"": "max by (pod, version) (penstock_operator_build_info{<chosen>})"},
                    kind="table",
                ),
                Panel(
                    "Which streams cannot be reconciled?",
                    "Good: none. Value: attempts that failed in a row. Runbook "
                    "PenstockReconcileFailing. Streams of every operator.",
                    {"": "max by (namespace, name) (penstock_stream_reconcile_failures) > 0"},
                    kind="table",
                    hidden=("Time",),
                ),
            ),
        ),
        Row(
            "Does it keep up?",
            (
                Panel(
                    "How long has a stream waited?",
                    "Good: seconds. From 15 s on: runbook PenstockReconcileSlow.",
                    {
                        "{{pod}}": "max by (pod) "
                        "(penstock_operator_work_queue_age_seconds{<chosen>})"
                    },
                    unit="s",
                    alarm=120,
                ),
                Panel(
                    "How many streams wait?",
                    "Good: near zero, with a peak after a start.",
                    {"{{pod}}": "max by (pod) (penstock_operator_work_queue_depth{<chosen>})"},
                ),
                Panel(
                    "Reconciles a second, by result",
                    "Good: unchanged, mostly; no error. A high rate of changed without edits means "
                    "that something else writes the same objects.",
                    {
                        "{{result}}": "sum by (result) "
                        "(rate(penstock_operator_reconcile_total{<chosen>}[$__rate_interval]))"
                    },
                    unit="cps",
                    colors={"changed": "blue", "unchanged": "green", "error": "red"},
                ),
                Panel(
                    "How long does a reconcile take?",
                    "Good: below a second. More: look at the API server's answers below.",
                    quantiles("penstock_operator_reconcile_duration_seconds", 0.5, 0.99),
                    unit="s",
                ),
            ),
        ),
        Row(
            "How does the API server answer?",
            (
                Panel(
                    "Requests a second",
                    "Good: grows with the number of streams, not with time.",
                    {
                        "{{verb}} {{resource}}": "sum by (verb, resource) (rate("
                        "penstock_operator_api_requests_total{<chosen>}[$__rate_interval]))"
                    },
                    unit="cps",
                ),
                Panel(
                    "Refused and failed requests a second",
                    "Good: none, but for 404 and 409 now and then. 403: a right is missing "
                    "(docs/rbac.md); 429 and 5xx: the API server is overloaded; none: no answer.",
                    {
                        "{{code}} {{verb}} {{resource}}": "sum by (code, verb, resource) (rate("
                        'penstock_operator_api_requests_total{code!~"2..", <chosen>}'
                        "[$__rate_interval])) > 0"
                    },
                    unit="cps",
                ),
                Panel(
                    "How long does a request take?",
                    "The 99% of each verb. Good: below a second.",
                    {
                        "{{verb}}": "histogram_quantile(0.99, sum by (verb, le) (rate("
                        "penstock_operator_api_request_duration_seconds_bucket"
                        "{<chosen>}[$__rate_interval])))"
                    },
                    unit="s",
                ),
            ),
        ),
    ),
)
