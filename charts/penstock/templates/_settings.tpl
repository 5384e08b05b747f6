{{- /* Generated from penstock/contract/operator_settings.py: make generate. */}}
{{- define "penstock.settings" -}}
{{ pick .Values "sparkImage" "sparkImageMaxUnavailable" "streamDefaults" "leaderElection" "watchNamespaces" "watchNamespaceSelector" "className" "numbersIntervalSeconds" "workQueue" "podSecurity" "fixedUser" "networkPolicies" "logLevel" | toYaml }}
{{- end -}}
