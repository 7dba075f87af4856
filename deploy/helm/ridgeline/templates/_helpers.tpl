{{- define "ridgeline.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "ridgeline.labels" -}}
app.kubernetes.io/name: ridgeline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ridgeline.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "ridgeline.account" -}}
{{ .Values.serviceAccount.name | default (ternary (include "ridgeline.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* The words of `ridgeline run`. */}}
{{- define "ridgeline.words" -}}
{{- $name := include "ridgeline.name" . -}}
{{- $words := list "run" .Values.application.file "--master" .Values.spark.master -}}
{{- $words = concat $words (list "--store" .Values.store.url "--store-name" (.Values.application.name | default .Release.Name)) -}}
{{- $words = concat $words (list "--host" "0.0.0.0" "--port" (toString .Values.web.port)) -}}
{{- range concat (list (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace)) .Values.web.allowHosts -}}
{{- $words = concat $words (list "--allow-host" .) -}}
{{- end -}}
{{- if .Values.web.tokensSecret -}}
{{- $words = concat $words (list "--tokens" "/etc/ridgeline/roles/tokens") -}}
{{- end -}}
{{- if .Values.web.tlsSecret -}}
{{- $words = concat $words (list "--web-cert" "/etc/ridgeline/tls/tls.crt" "--web-key" "/etc/ridgeline/tls/tls.key") -}}
{{- end -}}
{{- $conf := dict
    "spark.kubernetes.namespace" .Release.Namespace
    "spark.kubernetes.driver.pod.name" "$(POD_NAME)"
    "spark.kubernetes.container.image" (include "ridgeline.image" .)
    "spark.kubernetes.container.image.pullPolicy" .Values.image.pullPolicy
    "spark.kubernetes.executor.podNamePrefix" $name
    "spark.kubernetes.executor.podTemplateFile" "/etc/ridgeline/executor/executor.yaml"
    "spark.driver.host" (printf "%s.%s.svc" $name .Release.Namespace)
    "spark.driver.bindAddress" "$(POD_IP)"
    "spark.driver.port" .Values.ports.driver
    "spark.driver.blockManager.port" .Values.ports.blockManager
    "spark.ridgeline.slots.ports" .Values.ports.slots
    "spark.executor.instances" .Values.executors.instances
    "spark.executor.cores" .Values.executors.cores
    "spark.executor.memory" .Values.executors.memory
    "spark.executor.memoryOverhead" .Values.executors.memoryOverhead -}}
{{- if .Values.image.pullSecrets -}}
{{- $_ := set $conf "spark.kubernetes.container.image.pullSecrets" (join "," .Values.image.pullSecrets) -}}
{{- end -}}
{{- range $key, $value := mergeOverwrite $conf .Values.spark.conf -}}
{{- $words = concat $words (list "--conf" (printf "%s=%s" $key (toString $value))) -}}
{{- end -}}
{{- toYaml (concat $words .Values.application.arguments) -}}
{{- end }}

{{/* What drivers and executors share. */}}
{{- define "ridgeline.container" -}}
{{- with .Values.store.secret }}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end }}
securityContext: {{- toYaml .Values.containerSecurityContext | nindent 2 }}
{{- end }}

{{- define "ridgeline.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.store.claim }}
- {name: store, mountPath: {{ .Values.store.url | quote }}}
{{- end }}
{{- end }}

{{- define "ridgeline.volumes" -}}
- name: tmp
  emptyDir: {}
{{- if .Values.store.claim }}
- name: store
  persistentVolumeClaim: {claimName: {{ .Values.store.claim }}}
{{- end }}
{{- end }}

{{- define "ridgeline.driver" -}}
metadata:
  labels: {{- include "ridgeline.labels" . | nindent 4 }}
    ridgeline.role: driver
    {{- with .Values.driver.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    checksum/files: {{ toJson .Values.application.files | sha256sum }}
    {{- with .Values.driver.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  hostname: {{ include "ridgeline.name" . }}
  serviceAccountName: {{ include "ridgeline.account" . }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.driver.terminationGracePeriodSeconds }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .Values.driver.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.driver.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: driver
      image: {{ include "ridgeline.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: {{- include "ridgeline.words" . | nindent 8 }}
      env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: HOME, value: /tmp}
        # Secrets are readable by the pod's group, and volumes are the group's: only this pod has them.
        - {name: RIDGELINE_TRUST, value: "/etc/ridgeline,/tmp{{ if .Values.store.claim }},{{ .Values.store.url }}{{ end }}"}
        {{- with .Values.web.tokenSecret }}
        - {name: RIDGELINE_TOKEN, valueFrom: {secretKeyRef: {name: {{ . }}, key: token}}}
        - {name: RIDGELINE_READ_TOKEN, valueFrom: {secretKeyRef: {name: {{ . }}, key: read-token, optional: true}}}
        {{- end }}
        {{- range $name, $value := .Values.driver.env }}
        - {name: {{ $name }}, value: {{ $value | quote }}}
        {{- end }}
      {{- include "ridgeline.container" . | nindent 6 }}
      ports:
        - {name: web, containerPort: {{ .Values.web.port }}}
        - {name: driver, containerPort: {{ .Values.ports.driver }}}
        - {name: blocks, containerPort: {{ .Values.ports.blockManager }}}
      {{- $web := dict "path" "/healthz" "port" "web" "scheme" (ternary "HTTPS" "HTTP" (ne .Values.web.tlsSecret "")) }}
      startupProbe: # until Spark has its executors, which may wait for room
        httpGet: {{- toYaml $web | nindent 10 }}
        periodSeconds: 5
        failureThreshold: 120
      livenessProbe:
        httpGet: {{- toYaml $web | nindent 10 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe: # the first window is committed
        httpGet: {{- toYaml (merge (dict "path" "/readyz") $web) | nindent 10 }}
        periodSeconds: 5
        timeoutSeconds: 5
      resources: {{- toYaml .Values.driver.resources | nindent 8 }}
      volumeMounts:
        {{- include "ridgeline.mounts" . | nindent 8 }}
        - {name: executor, mountPath: /etc/ridgeline/executor, readOnly: true}
        {{- if .Values.application.files }}
        - {name: files, mountPath: /app, readOnly: true}
        {{- end }}
        {{- if .Values.web.tokensSecret }}
        - {name: roles, mountPath: /etc/ridgeline/roles, readOnly: true}
        {{- end }}
        {{- if .Values.web.tlsSecret }}
        - {name: tls, mountPath: /etc/ridgeline/tls, readOnly: true}
        {{- end }}
  volumes:
    {{- include "ridgeline.volumes" . | nindent 4 }}
    - name: executor
      configMap: {name: {{ include "ridgeline.name" . }}-executor}
    {{- if .Values.application.files }}
    - name: files
      configMap: {name: {{ include "ridgeline.name" . }}-files}
    {{- end }}
    {{- with .Values.web.tokensSecret }}
    - name: roles
      secret: {secretName: {{ . }}, defaultMode: 0400}
    {{- end }}
    {{- with .Values.web.tlsSecret }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0400}
    {{- end }}
{{- end }}
