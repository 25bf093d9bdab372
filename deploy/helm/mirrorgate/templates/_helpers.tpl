{{/* Names, labels and the parts that every pod shares. A component is api, drain, mirror, bridge-kafka, bridge-objects or migrate. */}}

{{- define "mirrorgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "mirrorgate.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "mirrorgate.labels" -}}
{{ include "mirrorgate.selector" . }}
app.kubernetes.io/part-of: mirrorgate
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "mirrorgate.metadata" -}}
name: {{ include "mirrorgate.fullname" .root }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "mirrorgate.labels" . | nindent 2 }}
{{- end -}}

{{/* The image of a target: api, drain or bridge. A digest wins over the tag. */}}
{{- define "mirrorgate.image" -}}
{{- $image := .root.Values.image -}}
{{- $name := printf "mirrorgate-%s" .target -}}
{{- if $image.registry }}{{ $name = printf "%s/%s" (trimSuffix "/" $image.registry) $name }}{{ end -}}
{{- $digest := get $image.digests .target -}}
{{- if $digest -}}{{ $name }}@{{ $digest }}{{- else -}}{{ $name }}:{{ $image.tag | default .root.Chart.AppVersion }}{{- end -}}
{{- end -}}

{{- define "mirrorgate.usesAzure" -}}
{{- $rows := and .root.Values.mirror.enabled .root.Values.mirror.rowsOverHttp -}}
{{- if or (has .component (list "drain" "mirror")) (and (eq .component "api") $rows) -}}true{{- end -}}
{{- end -}}

{{/* Metadata of a pod: labels, and checksums that restart it when its configuration changes. */}}
{{- define "mirrorgate.podMetadata" -}}
labels:
  {{- include "mirrorgate.labels" . | nindent 2 }}
  {{- if and (include "mirrorgate.usesAzure" .) .root.Values.azure.workloadIdentity.clientId }}
  azure.workload.identity/use: "true"
  {{- end }}
  {{- with .workload.podLabels }}{{ toYaml . | nindent 2 }}{{ end }}
annotations:
  kubectl.kubernetes.io/default-container: {{ .component }}
  checksum/settings: {{ .root.Values.settings | toJson | sha256sum }}
  {{- if hasKey .workload "config" }}
  checksum/config: {{ include "mirrorgate.bridgeConfig" . | sha256sum }}
  {{- end }}
  {{- if .root.Values.secrets.create }}
  checksum/secret: {{ .root.Values.secrets.values | toJson | sha256sum }}
  {{- end }}
  {{- with .workload.podAnnotations }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}

{{- define "mirrorgate.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "mirrorgate.podScheduling" -}}
serviceAccountName: {{ include "mirrorgate.fullname" .root }}-{{ .component }}
terminationGracePeriodSeconds: {{ .workload.terminationGracePeriodSeconds }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "mirrorgate.selector" $ | nindent 8 }}
  {{- end }}
{{- with .workload.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .workload.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .workload.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What every container has. Its root is read-only: it writes to /tmp and to mounted volumes only. */}}
{{- define "mirrorgate.container" -}}
name: {{ .component }}
image: {{ include "mirrorgate.image" . | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
resources: {{ toYaml .workload.resources | nindent 2 }}
{{- end -}}

{{/* Postgres' address, and its password where that is a key of its own: libpq takes PGPASSWORD as it is. */}}
{{- define "mirrorgate.databaseEnv" -}}
{{- $secrets := .Values.secrets -}}
- name: MIRRORGATE_DATABASE_URL
  valueFrom:
    secretKeyRef: { name: {{ include "mirrorgate.secret" . }}, key: {{ $secrets.keys.databaseUrl }} }
{{- with $secrets.keys.databasePassword }}
- name: PGPASSWORD
  valueFrom:
    secretKeyRef: { name: {{ include "mirrorgate.secret" $ }}, key: {{ . }} }
{{- end }}
{{- end -}}

{{- define "mirrorgate.secret" -}}
{{- if .Values.secrets.create -}}{{ include "mirrorgate.fullname" . }}-secrets
{{- else -}}{{ required "secrets.existingSecret: name the Secret with the database's address, or set secrets.create" .Values.secrets.existingSecret }}
{{- end -}}
{{- end -}}

{{/* The settings' ConfigMap, and what the values name beside it. */}}
{{- define "mirrorgate.envFrom" -}}
{{- $sources := list -}}
{{- if and .root.Values.settings (not (hasKey .workload "config")) -}}
{{- $sources = append $sources (dict "configMapRef" (dict "name" (printf "%s-settings" (include "mirrorgate.fullname" .root)))) -}}
{{- end -}}
{{- if and .root.Values.azure.existingSecret (include "mirrorgate.usesAzure" .) -}}
{{- $sources = append $sources (dict "secretRef" (dict "name" .root.Values.azure.existingSecret)) -}}
{{- end -}}
{{- with concat $sources .workload.envFrom -}}
envFrom: {{ toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- define "mirrorgate.tmp" -}}
- name: tmp
  emptyDir: { sizeLimit: {{ .workload.tmpSize }} }
{{- end -}}

{{- define "mirrorgate.landingZone" -}}
{{- .Values.landingZone.address | default "/landing-zone" -}}
{{- end -}}

{{- define "mirrorgate.landingZoneClaim" -}}
{{- .Values.landingZone.persistence.existingClaim | default (printf "%s-landing-zone" (include "mirrorgate.fullname" .)) -}}
{{- end -}}

{{- define "mirrorgate.mirrorTarget" -}}
{{- .Values.mirror.target | default "/mirror" -}}
{{- end -}}

{{- define "mirrorgate.apiUrl" -}}
{{- $scheme := ternary "https" "http" (not (empty .Values.api.tls.existingSecret)) -}}
{{ $scheme }}://{{ include "mirrorgate.fullname" . }}-api:{{ .Values.api.service.port }}
{{- end -}}

{{/* The file of a bridge: the gateway's address and key unless the values give them, and a health port for probes. */}}
{{- define "mirrorgate.bridgeConfig" -}}
{{- $gateway := dict "url" (include "mirrorgate.apiUrl" .root) "key" "${MIRRORGATE_API_KEY}" -}}
{{- $health := dict "health" (dict "host" "0.0.0.0" "port" 9480) -}}
{{- toYaml (mergeOverwrite (dict "gateway" $gateway) (deepCopy .workload.config) $health) -}}
{{- end -}}
