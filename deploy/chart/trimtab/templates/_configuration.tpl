{{- /* What the chart can see of the configuration files in its values, and the values that it refuses for it. */ -}}

{{- /* The documents of a file by their kind, as JSON: (dict "text" … "value" "config.inline" "kind" "the kind it needs"). */ -}}
{{- define "trimtab.documents" -}}
{{- $here := . -}}
{{- $found := dict -}}
{{- $remedy := printf "pass one with --set-file %s=FILE, and try it before with `trimtab config check FILE`" .value -}}
{{- range regexSplit "(?m)^---(\\s|$)" .text -1 -}}
{{- $document := fromYaml . -}}
{{- if $document.Error -}}
{{- fail (printf "%s is not a configuration file (%s): %s" $here.value $document.Error $remedy) -}}
{{- else if $document.Rulename -}}
{{- fail (printf "%s is a rule.yaml of dynamic-Scheduler: convert it with `trimtab config show FILE -prom URL`, and set labeller.config to the result" $here.value) -}}
{{- else if has $document.kind (list "ConfigMap" "Secret") -}}
{{- fail (printf "%s is a %s: pass the text of its key config.yaml alone, or apply a ConfigMap and set config.existingConfigMap" $here.value $document.kind) -}}
{{- else if $document -}}
{{- $_ := set $found (toString $document.kind) $document -}}
{{- end -}}
{{- end -}}
{{- if not (hasKey $found .kind) -}}
{{- if not (and (eq .value "config.inline") (hasKey $found "TrimtabConfiguration")) -}}
{{- fail (printf "%s has no document of kind %s: %s" .value .kind $remedy) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- /* The KubeSchedulerConfiguration of config.inline, as JSON; empty without one. */ -}}
{{- define "trimtab.inline" -}}
{{- $kind := "KubeSchedulerConfiguration" -}}
{{- $found := dict -}}
{{- if and .Values.config.inline (not .Values.config.existingConfigMap) -}}
{{- $found = include "trimtab.documents" (dict "text" .Values.config.inline "value" "config.inline" "kind" $kind) | fromJson -}}
{{- end -}}
{{- get $found $kind | default dict | toJson -}}
{{- end -}}

{{- /* The lease, as JSON: that of the release, unless config.inline names another one; "trimtab" is the default of a file, too. */ -}}
{{- define "trimtab.lease" -}}
{{- $election := (include "trimtab.inline" . | fromJson).leaderElection | default dict -}}
{{- $lease := dict "name" (include "trimtab.fullname" .) "namespace" .Release.Namespace "own" true -}}
{{- range $field, $key := dict "resourceName" "name" "resourceNamespace" "namespace" -}}
{{- $written := get $election $field | default "trimtab" | toString -}}
{{- if ne $written "trimtab" -}}
{{- $_ := set (set $lease $key $written) "own" false -}}
{{- end -}}
{{- end -}}
{{- toJson $lease -}}
{{- end -}}

{{- define "trimtab.refuseDefaultScheduler" -}}
{{- $file := include "trimtab.inline" . | fromJson -}}
{{- $election := $file.leaderElection | default dict -}}
{{- $lease := and $election.resourceName $election.resourceNamespace -}}
{{- if and $file (not .Values.rbac.defaultScheduler) (not $lease) (not (include "trimtab.withoutLease" .)) -}}
{{- range $file.profiles | default (list (dict)) -}}
{{- if eq (.schedulerName | default "default-scheduler") "default-scheduler" -}}
{{- fail "config.inline has a profile named default-scheduler, as one without schedulerName is, and needs kube-scheduler's lease: set rbac.defaultScheduler to true" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Ends with a sentence where values are valid one by one and do not work together; renders nothing. */ -}}
{{- define "trimtab.refuseValues" -}}
{{- include "trimtab.refuseDefaultScheduler" . -}}
{{- if and .Values.labeller.enabled .Values.labeller.config -}}
{{- $_ := include "trimtab.documents" (dict "text" .Values.labeller.config "value" "labeller.config" "kind" "TrimtabConfiguration") -}}
{{- end -}}
{{- if .Values.rescheduler.config -}}
{{- if ne .Values.rescheduler.mode "observe" -}}
{{- fail "rescheduler.mode is for the shipped file, and rescheduler.config has its own: write rescheduling.mode there, and leave this value out" -}}
{{- end -}}
{{- $written := include "trimtab.documents" (dict "text" .Values.rescheduler.config "value" "rescheduler.config" "kind" "TrimtabConfiguration") | fromJson -}}
{{- if not (get $written "TrimtabConfiguration").rescheduling -}}
{{- fail "rescheduler.config has no section rescheduling: see docs/rescheduling.md, and try the file with `trimtab config check FILE`" -}}
{{- end -}}
{{- end -}}
{{- $further := dict "extraArgs" .Values.extraArgs "labeller.extraArgs" .Values.labeller.extraArgs "rescheduler.extraArgs" .Values.rescheduler.extraArgs -}}
{{- range $value, $arguments := $further -}}
{{- range $arguments -}}
{{- if regexMatch "^--secure[-_]port(=|$)" . -}}
{{- fail (printf "%s has %s, but probes, Service and NetworkPolicy use the port 10259: leave it out" $value .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.prometheus.credentials .Values.prometheus.existingSecret -}}
{{- fail "prometheus.credentials and prometheus.existingSecret are both set, and only one Secret is mounted: leave one out" -}}
{{- end -}}
{{- end -}}
