{{- define "upesi.name" -}}
{{- default .Release.Name .Values.name | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "upesi.selector" -}}
app.kubernetes.io/name: upesi
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "upesi.labels" -}}
{{ include "upesi.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "upesi.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{/* Rejects invalid combinations before anything is created. */}}
{{- define "upesi.check" -}}
{{- if and (not .Values.log.kafka.brokers) (ne (int .Values.replicas) 1) -}}
{{- fail "a log in files has one node: set replicas to 1, or log.kafka.brokers to the brokers of a Kafka cluster" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.admin.tokenSecret.name) -}}
{{- fail "several nodes need one admin token: create a Secret (kubectl create secret generic upesi-admin --from-file=admin-token=FILE) and set admin.tokenSecret.name" -}}
{{- end -}}
{{- if and .Values.secure.enabled (not .Values.secure.secretName) -}}
{{- fail "secure.secretName is the Secret with the files of `upesi init`: see docs/operating/install.md. Set secure.enabled to false only with a gateway in front that authenticates participants" -}}
{{- end -}}
{{- if lt (int .Values.end.graceSeconds) (add (int .Values.end.pauseSeconds) 20 | int) -}}
{{- fail "end.graceSeconds must be at least end.pauseSeconds plus 20: an orderly stop takes a few seconds" -}}
{{- end -}}
{{- end -}}

{{/* Host names of the admin API for other pods. */}}
{{- define "upesi.hosts" -}}
{{- $name := include "upesi.name" . -}}
{{- $hosts := list -}}
{{- $nodes := list (printf "%s-admin" $name) -}}
{{- range $number := until (int .Values.replicas) -}}
{{- $nodes = append $nodes (printf "%s-%d.%s-nodes" $name $number $name) -}}
{{- end -}}
{{- range $node := $nodes -}}
{{- range $end := list "" (printf ".%s" $.Release.Namespace) (printf ".%s.svc" $.Release.Namespace) (printf ".%s.svc.cluster.local" $.Release.Namespace) -}}
{{- $hosts = append $hosts (printf "%s%s" $node $end) -}}
{{- end -}}
{{- end -}}
{{- concat $hosts .Values.admin.hosts | uniq | toJson -}}
{{- end -}}

{{/* The settings of `upesi init`; its files are in the Secret. */}}
{{- define "upesi.secure" -}}
{{- $each := list "participants" "parties" "quotes" "bulkQuotes" "transactionRequests" "authorizations" "transactions" "transfers" "bulkTransfers" -}}
fspiop:
  tls_certificate_file: /run/upesi-scheme/server.pem
  tls_key_file: /run/upesi-scheme/server.key
  tls_client_ca_file: /run/upesi-scheme/ca.pem
  callers: certificate
  participant_rate_max: 2000
  participant_requests_max: 1000
  refusals_per_address: 500
admin:
  auth: roles
  address_rate_max: 100
  address_requests_max: 16
  tls_certificate_file: /run/upesi-scheme/server.pem
  tls_key_file: /run/upesi-scheme/server.key
jws:
  validate: {{ toJson $each }}
  sign: {{ toJson (append $each "services") }}
  signing_key: /run/upesi-scheme/hub.key
endpoints:
  https_only: true
  tls_certificate_file: /run/upesi-scheme/client.pem
  tls_key_file: /run/upesi-scheme/client.key
  tls_ca_file: /run/upesi-scheme/ca.pem
encryption:
  key: file:/run/upesi-scheme/master.key
transfers:
  expiration_max: 24h
logging:
  format: json
{{- end -}}

{{/* The configuration file. Numbers, strings, booleans and lists have the same syntax in JSON and TOML. */}}
{{- define "upesi.configuration" -}}
{{- $admin := dict "listen" "0.0.0.0:3001" "hosts" (include "upesi.hosts" . | fromJsonArray) -}}
{{- if .Values.admin.tokenSecret.name -}}
{{- $_ := set $admin "token_file" "/run/upesi/admin-token" -}}
{{- end -}}
{{- $probes := dict "listen" "0.0.0.0:3002" -}}
{{- $own := dict "fspiop" (dict "listen" "0.0.0.0:4000") "admin" $admin "health" $probes -}}
{{- $secure := dict -}}
{{- if .Values.secure.enabled -}}
{{- $secure = include "upesi.secure" . | fromYaml -}}
{{- end -}}
{{- $all := mergeOverwrite $secure (deepCopy .Values.configuration) $own -}}
{{- range $section, $settings := $all }}
[{{ $section }}]
{{- range $setting, $value := $settings }}
{{ $setting }} = {{ toJson $value }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* The arguments of `upesi`, on one line. */}}
{{- define "upesi.arguments" -}}
{{- $arguments := list "serve" "--data" "/var/lib/upesi/data" "--config" "/etc/upesi/upesi.toml" -}}
{{- with .Values.log.kafka -}}
{{- if .brokers -}}
{{- $arguments = concat $arguments (list "--log" (printf "kafka://%s/%s" (join "," .brokers) .topic) "--node" "$(NODE_NAME)") -}}
{{- with .from -}}
{{- $arguments = concat $arguments (list "--from" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $written := list -}}
{{- range $arguments -}}
{{- $written = append $written (quote .) -}}
{{- end -}}
[{{ join ", " $written }}]
{{- end -}}
