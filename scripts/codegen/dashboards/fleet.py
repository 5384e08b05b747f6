"""The dashboard of all streams: which one needs a person?"""

from __future__ import annotations

from scripts.codegen.dashboards.grafana import Dashboard, Panel, Row, Variable
from scripts.codegen.dashboards.shared import RUNBOOK, STATE_COLORS

_STREAM = "/d/penstock-stream?${datasource:queryparam}&${__url_time_range}"
_OF_ROW = (
    "This stream",
    f"{_STREAM}&var-namespace=${{__data.fields.namespace}}&var-name=${{__data.fields.name}}",
)
_OF_SERIES = (
    "This stream",
    f"{_STREAM}&var-namespace=${{__field.labels.namespace}}&var-name=${{__field.labels.name}}",
)
_BY_STREAM = "{{namespace}}/{{name}}"


FLEET = Dashboard(
    name="fleet",
    title="Penstock / Fleet",
    description="All streams: which one needs a person?",
    chosen='namespace=~"$namespace"',
    variables=(
        Variable(
            "namespace", "Namespace", "label_values(penstock_stream_info, namespace)", several=True
        ),
    ),
    rows=(
        Row(
            "Who needs help?",
            (
                Panel(
                    "Streams by state",
                    "Good: Running, Completed, and Suspended where someone wanted it. A Stalled "
                    "stream waits for a person; the next panels say which and why.",
                    {
                        "{{state}}": "sum by (state) (max by (namespace, name, state) "
                        "(penstock_stream_state{<chosen>})) > 0"
                    },
                    kind="stat",
                    colors=STATE_COLORS,
                ),
                Panel(
                    "Firing alerts",
                    "Good: none. A click opens the runbook. Alerts about the operator are shown "
                    "for every choice of namespaces.",
                    {
                        "": "max by (alertname, severity, namespace, name) ("
                        'ALERTS{alertname=~"Penstock.+", alertstate="firing", <chosen>} or '
                        'ALERTS{alertname=~"Penstock.+", alertstate="firing", name=""})'
                    },
                    kind="table",
                    link=RUNBOOK,
                ),
                Panel(
                    "Which streams are not ready, and why?",
                    "Good: none. Without the condition Stalled the driver recovers by itself; with "
                    "it, the reason tells what a person must do (docs/reasons.md). Suspended "
                    "streams are not shown. A click opens the stream.",
                    {
                        "": "max by (namespace, name, condition, reason) ("
                        'penstock_stream_condition{condition="Stalled", status="True", <chosen>}'
                        ' or penstock_stream_condition{condition="Ready", status="False", '
                        "<chosen>}) unless on (namespace, name) "
                        'penstock_stream_state{state=~"Suspend(ing|ed)"} == 1'
                    },
                    kind="table",
                    link=_OF_ROW,
                ),
            ),
        ),
        Row(
            "Are records on time?",
            (
                Panel(
                    "Oldest waiting record, by stream",
                    "Good: a few commit intervals. The ten oldest; a click opens the stream.",
                    {
                        _BY_STREAM: "topk(10, max by (namespace, name) "
                        "(penstock_driver_lag_seconds{<chosen>}))"
                    },
                    unit="s",
                    kind="bargauge",
                    link=_OF_SERIES,
                ),
                Panel(
                    "Share of the time range in which a stream was late",
                    "Good: below 1%, as the alert PenstockStreamFreshnessBudgetBurns has it, "
                    "whose rules record this. The ten latest; a click opens the stream.",
                    {
                        _BY_STREAM: "topk(10, avg_over_time("
                        "namespace_name:penstock_stream_stale:bool{<chosen>}[$__range]) > 0)"
                    },
                    unit="percentunit",
                    kind="bargauge",
                    alarm=0.01,
                    link=_OF_SERIES,
                ),
                Panel(
                    "Committed records a second",
                    "Good: follows the producers. A fall to zero in one namespace points at its "
                    "broker, quota or network.",
                    {
                        "{{namespace}}": "sum by (namespace) (rate("
                        "penstock_driver_committed_records_total{<chosen>}[$__rate_interval]))"
                    },
                    unit="cps",
                ),
            ),
        ),
        Row(
            "Is the platform well?",
            (
                Panel(
                    "Restarts in the time range, by stream and level",
                    "Good: none, or a few from drained nodes. The ten that restart most; a click "
                    "opens the stream, which names the failures.",
                    {
                        # The counter is in the status: it survives operator and driver.
                        _BY_STREAM + " {{level}}": "topk(10, max by (namespace, name, level) "
                        "(penstock_stream_restarts_total{<chosen>})"
                        " - min by (namespace, name, level) (min_over_time("
                        "penstock_stream_restarts_total{<chosen>}[$__range])) > 0)"
                    },
                    kind="bargauge",
                    link=_OF_SERIES,
                ),
                Panel(
                    "Executor cores",
                    "Good: registered equals desired. A lasting gap means pods that cannot be "
                    "scheduled: look at quota and nodes.",
                    {
                        "{{kind}}": "sum by (kind) (max by (namespace, name, kind) "
                        "(penstock_stream_cores{<chosen>}))"
                    },
                ),
            ),
        ),
    ),
)
