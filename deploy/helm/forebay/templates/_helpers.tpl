{{- define "forebay.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "forebay.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "forebay.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "forebay.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* Name of what one shard has. That of a StatefulSet has at most 52 characters, since its pods get it with a hash as a label. */ -}}
{{- define "forebay.shardName" -}}
{{- $name := printf "%s-%s" (include "forebay.fullname" .root) .shard }}
{{- if gt (len $name) 52 }}
{{- fail (printf "%s: names of shards and of the release have at most 51 characters together; set fullnameOverride" $name) }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "forebay.selectorLabels" -}}
app.kubernetes.io/name: {{ include "forebay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: broker
{{- end }}

{{- define "forebay.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "forebay.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "forebay.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "forebay.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "forebay.tokenSecret" -}}
{{- if .Values.auth.existingSecret }}
{{- .Values.auth.existingSecret }}
{{- else if .Values.auth.tokenHashes }}
{{- printf "%s-tokens" (include "forebay.fullname" .) }}
{{- end }}
{{- end }}

{{- define "forebay.tokenKey" -}}
{{- ternary .Values.auth.existingSecretKey "tokens" (ne .Values.auth.existingSecret "") }}
{{- end }}

{{- /* Settings of the broker: those of the user, and above them those of the chart. */ -}}
{{- define "forebay.settings" -}}
{{- $auth := .Values.auth }}
{{- $tokens := include "forebay.tokenSecret" . }}
{{- $tls := .Values.tls }}
{{- if not (or $tokens $tls.requireClientCertificate $auth.allowAnonymous) }}
{{- fail "every caller of the network could read, change and delete every sink: set auth.existingSecret or auth.tokenHashes (with tls.existingSecret), or tls.requireClientCertificate, or auth.allowAnonymous=true where the network itself keeps strangers out" }}
{{- end }}
{{- if and $tls.requireClientCertificate (not $tls.existingSecret) }}
{{- fail "tls.requireClientCertificate is of no use without tls.existingSecret" }}
{{- end }}
{{- if and $tokens (not $tls.existingSecret) (not $auth.tokensWithoutTls) }}
{{- fail "tokens would go unencrypted over the network: set tls.existingSecret, or auth.tokensWithoutTls=true where the network itself encrypts" }}
{{- end }}
{{- if and .Values.console.enabled (not (or $tokens $auth.allowAnonymous)) }}
{{- fail "the console knows callers by their tokens, not by certificates: set auth.existingSecret or auth.tokenHashes besides tls.requireClientCertificate, or console.enabled=false" }}
{{- end }}
{{- if .Values.shards }}
{{- if not .Values.settings.journal }}
{{- fail "shards need settings.journal, the common address of their journals" }}
{{- end }}
{{- if or .Values.settings.shard .Values.settings.advertise }}
{{- fail "shards set shard and advertise of each broker: remove settings.shard and settings.advertise" }}
{{- end }}
{{- if .Values.persistence.existingClaim }}
{{- fail "shards have a claim for each broker: remove persistence.existingClaim" }}
{{- end }}
{{- if ne .Values.service.type "ClusterIP" }}
{{- fail (printf "service.type = %s: owners of shards are advertised at host names that only the cluster resolves, so clients outside of it reach no shard: set service.type=ClusterIP" .Values.service.type) }}
{{- end }}
{{- $names := list }}
{{- range .Values.shards }}
{{- $names = append $names .name }}
{{- if or (eq .name "metrics") (hasSuffix "-headless" .name) }}
{{- fail (printf "the name of the shard %s is that of a Service of the chart: give it a name other than metrics, without -headless at its end" .name) }}
{{- end }}
{{- end }}
{{- if ne (len $names) (len (uniq $names)) }}
{{- fail "two shards have the same name" }}
{{- end }}
{{- end }}
{{- $ours := dict "data_dir" "/data/broker" "listen" (printf "%s:7461" .Values.listenHost) }}
{{- if .Values.metrics.enabled }}
{{- $_ := set $ours "metrics_listen" (printf "%s:7463" .Values.listenHost) }}
{{- $_ := set $ours "metrics_allow_anonymous" true }}
{{- end }}
{{- if .Values.console.enabled }}
{{- $_ := set $ours "console_listen" (printf "%s:7462" .Values.listenHost) }}
{{- $_ := set $ours "console_write" .Values.console.write }}
{{- end }}
{{- if $auth.allowAnonymous }}{{ $_ := set $ours "allow_anonymous" true }}{{ end }}
{{- if $tokens }}
{{- $_ := set $ours "token_hashes_file" "/etc/forebay/tokens/tokens" }}
{{- $_ := set $ours "tokens_without_tls" $auth.tokensWithoutTls }}
{{- end }}
{{- if $tls.existingSecret }}
{{- $_ := set $ours "tls_server_cert_file" "/etc/forebay/tls/tls.crt" }}
{{- $_ := set $ours "tls_server_key_file" "/etc/forebay/tls/tls.key" }}
{{- if $tls.requireClientCertificate }}{{ $_ := set $ours "tls_client_ca_file" "/etc/forebay/tls/ca.crt" }}{{ end }}
{{- end }}
{{- toToml (mergeOverwrite (deepCopy .Values.settings) $ours) }}
{{- end }}

{{- /* The kubelet's gRPC probe speaks no TLS; with TLS the probe is a TCP connection. A broker listens once it serves. A
follower of a journal listens only when it takes over, so it is not ready until then, and no other probe may end it. */ -}}
{{- define "forebay.probe" -}}
{{- if .root.Values.tls.existingSecret }}
tcpSocket: {port: grpc}
{{- else }}
grpc: {port: 7461, service: {{ .service | quote }}}
{{- end }}
{{- end }}

{{- /* Seconds of a duration of the settings: a number, or a text such as 90s or 1m30s. */ -}}
{{- define "forebay.seconds" -}}
{{- $text := toString . | lower | replace "_" "" | nospace }}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "min" 60.0 "h" 3600.0 "d" 86400.0 "w" 604800.0 }}
{{- $parts := regexFindAll "[0-9]*[.]?[0-9]+(ms|min|[smhdw])" $text -1 }}
{{- if $parts }}
{{- $sum := 0.0 }}
{{- range $parts }}
{{- $sum = addf $sum (mulf (regexFind "^[0-9.]+" . | float64) (get $units (regexFind "[a-z]+$" .))) }}
{{- end }}
{{- $sum }}
{{- else }}
{{- float64 $text }}
{{- end }}
{{- end }}

{{- /* A stop waits for calls up to `drain_s`, and then writes what is in memory: the kubelet must not end it before. */ -}}
{{- define "forebay.gracePeriod" -}}
{{- $grace := .Values.terminationGracePeriodSeconds }}
{{- $drain := ternary .Values.settings.drain_s 10 (hasKey .Values.settings "drain_s") }}
{{- $least := add 30 (include "forebay.seconds" $drain | float64 | ceil | int) }}
{{- if lt (int $grace) (int $least) }}
{{- fail (printf "terminationGracePeriodSeconds = %v: a stop with settings.drain_s = %v would be killed before it has written what is in memory; set at least %d" $grace $drain $least) }}
{{- end }}
{{- $grace }}
{{- end }}
