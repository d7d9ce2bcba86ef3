package differential

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// world is a scheduler framework over the cluster of one question.
type world struct {
	framework.Framework
	snapshot *schedulercache.Snapshot
	built    map[string]fwk.Plugin
}

// newWorld builds the framework over these pods. The informers never run: their stores are filled by hand, which is all
// that listers read, and so no API server is needed, not even a pretended one.
func newWorld(ctx context.Context, q *question, profile *config.KubeSchedulerProfile, running []*v1.Pod) (*world, error) {
	factory := informers.NewSharedInformerFactory(nil, 0)
	made := &world{snapshot: schedulercache.NewSnapshot(running, q.Nodes), built: map[string]fwk.Plugin{}}
	promises := queue.NewSchedulingQueue((&queuesort.PrioritySort{}).Less, factory)
	var err error
	made.Framework, err = frameworkruntime.NewFramework(ctx, made.registry(), profile,
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(made.snapshot),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithPodNominator(promises),
		frameworkruntime.WithParallelism(1),
	)
	if err != nil {
		return nil, err
	}
	if err := fill(factory, q, running); err != nil {
		return nil, err
	}
	promise(ctx, promises, q)
	return made, nil
}

// registry is the in-tree one, but keeps what it builds: the framework does not hand out its plugins.
func (w *world) registry() frameworkruntime.Registry {
	kept := frameworkruntime.Registry{}
	for name, build := range plugins.NewInTreeRegistry() {
		kept[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := build(ctx, args, handle)
			w.built[name] = plugin
			return plugin, err
		}
	}
	return kept
}

// promise makes the nominated pods known. A running kube-scheduler has them in its queue; one that has not knows no more
// of them than their names, and so counts them as pods without requests and with priority 0.
func promise(ctx context.Context, promises queue.SchedulingQueue, q *question) {
	logger := klog.FromContext(ctx)
	for _, pod := range q.NominatedPods {
		if q.NominatedQueued {
			promises.Add(logger, pod)
			continue
		}
		known, _ := framework.NewPodInfo(pod)
		promises.AddNominatedPod(logger, known, nil)
	}
}

func fill(factory informers.SharedInformerFactory, q *question, running []*v1.Pod) error {
	core, store := factory.Core().V1(), factory.Storage().V1()
	pods := append(append(append([]*v1.Pod{}, running...), q.NominatedPods...), q.PendingPods...)
	if q.Pod != nil {
		pods = append(pods, q.Pod)
	}
	o := &q.Objects
	return firstOf(
		put(core.Pods().Informer(), pods),
		put(core.Nodes().Informer(), q.Nodes),
		put(core.Namespaces().Informer(), o.Namespaces),
		put(core.Services().Informer(), o.Services),
		put(core.ReplicationControllers().Informer(), o.ReplicationControllers),
		put(core.PersistentVolumes().Informer(), o.PersistentVolumes),
		put(core.PersistentVolumeClaims().Informer(), o.PersistentVolumeClaims),
		put(factory.Apps().V1().ReplicaSets().Informer(), o.ReplicaSets),
		put(factory.Apps().V1().StatefulSets().Informer(), o.StatefulSets),
		put(store.StorageClasses().Informer(), o.StorageClasses),
		put(store.CSINodes().Informer(), o.CSINodes),
		put(store.CSIDrivers().Informer(), o.CSIDrivers),
		put(store.CSIStorageCapacities().Informer(), o.CSIStorageCapacities),
		put(store.VolumeAttachments().Informer(), o.VolumeAttachments),
		put(factory.Policy().V1().PodDisruptionBudgets().Informer(), o.PodDisruptionBudgets),
	)
}

func put[T any](informer cache.SharedIndexInformer, found []T) error {
	for _, object := range found {
		if err := informer.GetIndexer().Add(object); err != nil {
			return err
		}
	}
	return nil
}

func firstOf(found ...error) error {
	for _, err := range found {
		if err != nil {
			return err
		}
	}
	return nil
}

// defaultProfile is what kube-scheduler runs when it is told nothing, without DynamicResources: no question has claims.
func defaultProfile() (*config.KubeSchedulerProfile, error) {
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var whole config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &whole, nil); err != nil {
		return nil, err
	}
	profile := whole.Profiles[0]
	var kept []config.Plugin
	for _, plugin := range profile.Plugins.MultiPoint.Enabled {
		if plugin.Name != names.DynamicResources {
			kept = append(kept, plugin)
		}
	}
	profile.Plugins.MultiPoint.Enabled = kept
	return &profile, nil
}

// profileOf has one plugin, and the two without which no framework is built.
func profileOf(plugin string, args json.RawMessage) (*config.KubeSchedulerProfile, error) {
	enabled := []config.Plugin{{Name: names.PrioritySort}, {Name: names.DefaultBinder}}
	if plugin != names.PrioritySort {
		enabled = append(enabled, config.Plugin{Name: plugin})
	}
	profile := &config.KubeSchedulerProfile{
		SchedulerName: "default-scheduler",
		Plugins:       &config.Plugins{MultiPoint: config.PluginSet{Enabled: enabled}},
	}
	decoded, err := decodeArgs(plugin, args)
	if decoded != nil {
		profile.PluginConfig = []config.PluginConfig{{Name: plugin, Args: decoded}}
	}
	return profile, err
}

// decodeArgs reads arguments as a configuration file would be read, with defaults; nil for a plugin that takes none.
func decodeArgs(plugin string, args json.RawMessage) (runtime.Object, error) {
	kind := configv1.SchemeGroupVersion.WithKind(plugin + "Args")
	if !scheme.Scheme.Recognizes(kind) {
		return nil, nil
	}
	text := strings.TrimSpace(string(args))
	if text == "" || text == "null" {
		text = "{}"
	}
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), &kind, nil)
	if err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", plugin, err)
	}
	return decoded, nil
}
