{{- define "penstock.name" -}}
{{- .Values.fullnameOverride | default (printf "%s-operator" .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "penstock.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "penstock.name" .) -}}
{{- end -}}

{{- /* Of what is not in the release's namespace: another release may have its name elsewhere. */}}
{{- define "penstock.clusterName" -}}
{{ include "penstock.name" . }}.{{ .Release.Namespace }}
{{- end -}}

{{- define "penstock.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ quote .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "penstock.labels" -}}
{{- include "penstock.labelsWith" (list . dict) -}}
{{- end -}}

{{- /* The labels of an object that has more of its own: (list $ more). The chart's own win over those, and those
over commonLabels. */}}
{{- define "penstock.labelsWith" -}}
{{- $root := index . 0 -}}
{{- $own := include "penstock.selector" $root | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) -}}
{{- toYaml (merge $own (index . 1 | default dict) ($root.Values.commonLabels | default dict)) -}}
{{- end -}}

{{- define "penstock.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
