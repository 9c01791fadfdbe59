{{/* The name of all objects. */}}
{{- define "bayplan.name" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "bayplan.serviceAccount" -}}
{{- default (include "bayplan.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* What the replicas are selected by. */}}
{{- define "bayplan.selector" -}}
app: {{ include "bayplan.name" . }}
{{- end -}}

{{- define "bayplan.labels" -}}
app.kubernetes.io/name: bayplan
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* The KubeSchedulerConfiguration, as YAML: the file, over it the release's Lease, over it the values. */}}
{{- define "bayplan.config" -}}
{{- $lease := dict "resourceName" (include "bayplan.name" .) "resourceNamespace" .Release.Namespace -}}
{{- $file := .Files.Get "files/config.yaml" | fromYaml -}}
{{- mergeOverwrite $file (dict "leaderElection" $lease) (deepCopy .Values.config) | toYaml -}}
{{- end -}}
