package differential

import (
	"context"
	"fmt"
	"sort"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// answerSingle asks one plugin, each extension point by itself.
func answerSingle(ctx context.Context, q *question) (answers, error) {
	profile, err := profileOf(q.Plugin, q.Args)
	if err != nil {
		return nil, err
	}
	w, err := newWorld(ctx, q, profile, q.ExistingPods)
	if err != nil {
		return nil, err
	}
	plugin, told := w.built[q.Plugin], answers{}
	if gate, ok := plugin.(fwk.PreEnqueuePlugin); ok && q.asks("PreEnqueue") {
		told["preEnqueue"] = verdict(gate.PreEnqueue(ctx, q.Pod))
	}
	if order, ok := plugin.(fwk.QueueSortPlugin); ok && q.asks("QueueSort") {
		told["less"] = less(order, q.Queue)
	}
	if q.asks("PreFilter", "Filter") {
		if err := w.filterAlone(ctx, q, plugin, told); err != nil {
			return nil, err
		}
	}
	if q.asks("PreScore", "Score") {
		err = w.scoreAlone(ctx, q, plugin, told)
	}
	return told, err
}

func less(order fwk.QueueSortPlugin, queue []queued) [][]bool {
	infos := make([]fwk.QueuedPodInfo, len(queue))
	for i, each := range queue {
		pod, _ := framework.NewPodInfo(each.Pod)
		infos[i] = &framework.QueuedPodInfo{PodInfo: pod, Timestamp: each.Timestamp}
	}
	told := make([][]bool, len(queue))
	for i, one := range infos {
		for _, other := range infos {
			told[i] = append(told[i], order.Less(one, other))
		}
	}
	return told
}

// filterAlone follows the framework: a plugin that skips lets every node pass, one that refuses is asked nothing more.
func (w *world) filterAlone(ctx context.Context, q *question, plugin fwk.Plugin, told answers) error {
	state, skipped := framework.NewCycleState(), false
	all, err := w.snapshot.NodeInfos().List()
	if err != nil {
		return err
	}
	if before, ok := plugin.(fwk.PreFilterPlugin); ok {
		result, status := before.PreFilter(ctx, state, q.Pod, all)
		told["preFilter"] = withNames(verdict(status), result)
		if skipped = status.IsSkip(); !skipped && !status.IsSuccess() {
			return nil
		}
	}
	filter, ok := plugin.(fwk.FilterPlugin)
	if !ok || len(q.Nodes) == 0 {
		return nil
	}
	verdicts := answers{}
	for _, node := range all {
		var status *fwk.Status
		if !skipped {
			status = filter.Filter(ctx, state, q.Pod, node)
		}
		verdicts[node.Node().Name] = verdict(status)
	}
	told["filter"] = verdicts
	return nil
}

func (w *world) scoreAlone(ctx context.Context, q *question, plugin fwk.Plugin, told answers) error {
	state := framework.NewCycleState()
	nodes, err := w.named(q.ScoreNodes)
	if err != nil || len(nodes) == 0 {
		return err
	}
	if before, ok := plugin.(fwk.PreScorePlugin); ok {
		status := before.PreScore(ctx, state, q.Pod, nodes)
		told["preScore"] = verdict(status)
		if !status.IsSuccess() {
			return nil
		}
	}
	if score, ok := plugin.(fwk.ScorePlugin); ok {
		return scored(ctx, state, q.Pod, score, nodes, told)
	}
	return nil
}

func scored(ctx context.Context, state fwk.CycleState, pod *v1.Pod, score fwk.ScorePlugin, nodes []fwk.NodeInfo, told answers) error {
	list := make(fwk.NodeScoreList, len(nodes))
	for i, node := range nodes {
		value, status := score.Score(ctx, state, pod, node)
		if !status.IsSuccess() {
			return status.AsError()
		}
		list[i] = fwk.NodeScore{Name: node.Node().Name, Score: value}
	}
	told["rawScore"] = byName(list)
	if scaled := score.ScoreExtensions(); scaled != nil {
		if status := scaled.NormalizeScore(ctx, state, pod, list); !status.IsSuccess() {
			return status.AsError()
		}
	}
	told["score"] = byName(list)
	return nil
}

func (w *world) named(wanted []string) ([]fwk.NodeInfo, error) {
	found := make([]fwk.NodeInfo, len(wanted))
	for i, name := range wanted {
		node, err := w.snapshot.NodeInfos().Get(name)
		if err != nil {
			return nil, fmt.Errorf("scoreNodes: %w", err)
		}
		found[i] = node
	}
	return found, nil
}

func byName(list fwk.NodeScoreList) map[string]int64 {
	told := map[string]int64{}
	for _, each := range list {
		told[each.Name] = each.Score
	}
	return told
}

// verdict is a status in the recorded form.
func verdict(status *fwk.Status) answers {
	told := answers{"code": status.Code().String()}
	if status.IsSuccess() {
		return told
	}
	if reasons := append([]string{}, status.Reasons()...); len(reasons) > 0 {
		sort.Strings(reasons)
		told["reasons"] = reasons
	}
	return told
}

// charged is a verdict that says which plugin of the profile refused.
func charged(status *fwk.Status) answers {
	told := verdict(status)
	if !status.IsSuccess() && status.Plugin() != "" {
		told["plugin"] = status.Plugin()
	}
	return told
}

func withNames(told answers, result *fwk.PreFilterResult) answers {
	if !result.AllNodes() {
		told["nodeNames"] = sorted(result.NodeNames.UnsortedList())
	}
	return told
}

func sorted(found []string) []string {
	sort.Strings(found)
	return found
}
