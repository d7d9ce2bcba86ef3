{{- define "trimtab.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "trimtab" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-trimtab" (.Release.Name | trunc 32 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "trimtab.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "trimtab.fullname" .) -}}
{{- end -}}

{{- define "trimtab.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- /* What selects the pods of a component: never changes between versions, because selectors cannot. */ -}}
{{- define "trimtab.selector" -}}
app.kubernetes.io/name: trimtab
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* Labels of objects: (dict "root" . "component" "scheduler"), or without a component for what belongs to all. */ -}}
{{- define "trimtab.labels" -}}
app.kubernetes.io/name: trimtab
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/part-of: trimtab
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "trimtab.podLabels" -}}
{{ include "trimtab.selector" . }}
app.kubernetes.io/part-of: trimtab
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end -}}

{{- define "trimtab.priorityClass" -}}
{{- .Values.priorityClass.name | default (ternary (include "trimtab.fullname" .) "" .Values.priorityClass.create) -}}
{{- end -}}

{{- define "trimtab.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "trimtab.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "trimtab.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: https, scheme: HTTPS}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: https, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: https, scheme: HTTPS}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{- define "trimtab.mounts" -}}
- {name: config, mountPath: /etc/trimtab, readOnly: true}
- {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
- {name: prometheus, mountPath: /var/run/secrets/prometheus, readOnly: true}
{{- if .Values.serving.tlsSecret }}
- {name: serving, mountPath: /var/run/secrets/serving, readOnly: true}
{{- end }}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{- /* All volumes but the ConfigMap, which differs by component. */ -}}
{{- define "trimtab.volumes" -}}
{{ include "trimtab.tokenVolume" . }}
- name: prometheus
  secret:
    secretName: {{ include "trimtab.prometheusSecret" . }}
    optional: {{ not (or .Values.prometheus.existingSecret .Values.prometheus.credentials) }}
    defaultMode: 0440
{{- with .Values.serving.tlsSecret }}
- name: serving
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- end -}}

{{- define "trimtab.prometheusSecret" -}}
{{- .Values.prometheus.existingSecret | default (printf "%s-prometheus" (include "trimtab.fullname" .)) -}}
{{- end -}}

{{- define "trimtab.tokenVolume" -}}
- name: token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items:
            - path: namespace
              fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}
{{- end -}}

{{- define "trimtab.servingArgs" -}}
- --bind-address=0.0.0.0
- --secure-port=10259
{{- if .Values.serving.tlsSecret }}
- --tls-cert-file=/var/run/secrets/serving/tls.crt
- --tls-private-key-file=/var/run/secrets/serving/tls.key
{{- end }}
{{- end -}}

{{- /* Subjects of roles that all accounts share. */ -}}
{{- define "trimtab.allAccounts" -}}
- kind: ServiceAccount
  name: {{ include "trimtab.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
- kind: ServiceAccount
  name: {{ include "trimtab.fullname" . }}-labeller
  namespace: {{ .Release.Namespace }}
{{ include "trimtab.reschedulerSubject" . }}
{{- end -}}

{{- define "trimtab.reschedulerSubject" -}}
- kind: ServiceAccount
  name: {{ include "trimtab.fullname" . }}-rescheduler
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- define "trimtab.schedulerSubject" -}}
- kind: ServiceAccount
  name: {{ include "trimtab.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- define "trimtab.flowSubjects" -}}
- kind: ServiceAccount
  serviceAccount: {name: {{ include "trimtab.serviceAccount" . }}, namespace: {{ .Release.Namespace }}}
- kind: ServiceAccount
  serviceAccount: {name: {{ include "trimtab.fullname" . }}-labeller, namespace: {{ .Release.Namespace }}}
- kind: ServiceAccount
  serviceAccount: {name: {{ include "trimtab.fullname" . }}-rescheduler, namespace: {{ .Release.Namespace }}}
{{- end -}}

{{- /* The rescheduler's file: that of the values, or the shipped one with rescheduler.mode. */ -}}
{{- define "trimtab.reschedulerConfig" -}}
{{- $shipped := .Files.Get "files/rescheduler.yaml" -}}
{{- .Values.rescheduler.config | default (regexReplaceAll "(?m)^  mode: observe " $shipped (printf "  mode: %s " .Values.rescheduler.mode)) -}}
{{- end -}}

{{- define "trimtab.config" -}}
{{- .Values.config.inline | default (.Files.Get (printf "files/templates/%s.yaml" .Values.config.template)) -}}
{{- end -}}

{{- /* Not empty if the configuration has no leader election: two replicas would then both schedule. */ -}}
{{- define "trimtab.withoutLease" -}}
{{- if not .Values.config.existingConfigMap -}}
{{- if regexMatch "(?m)^ +leaderElect: *false" (include "trimtab.config" .) -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- fail "the configuration has leaderElect: false, so that every replica would schedule: set replicas to 1" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}
{{- end -}}
