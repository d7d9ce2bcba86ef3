package differential

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// answerWhole asks the default profile: about one pod, about pods one after another, or about preemption.
func answerWhole(ctx context.Context, q *question) (answers, error) {
	if q.Plugin == "DefaultProfileSequence" {
		return answerSequence(ctx, q)
	}
	c, err := newCycle(ctx, q, q.Pod, q.ExistingPods)
	if err != nil {
		return nil, err
	}
	told := answers{}
	if err := c.filter(ctx, told); err != nil {
		return nil, err
	}
	if q.Plugin == "DefaultPreemption" && (q.PreemptionMode == "force" || len(c.feasible) == 0) {
		return told, c.preempt(ctx, told, q.PreemptionMode == "force")
	}
	if len(c.feasible) > 0 {
		err = c.score(ctx, told)
	}
	return told, err
}

// cycle is one pod's way through the framework.
type cycle struct {
	*world
	pod      *v1.Pod
	state    fwk.CycleState
	statuses *framework.NodeToStatus
	feasible []fwk.NodeInfo
}

func newCycle(ctx context.Context, q *question, pod *v1.Pod, running []*v1.Pod) (*cycle, error) {
	profile, err := defaultProfile()
	if err != nil {
		return nil, err
	}
	w, err := newWorld(ctx, q, profile, running)
	if err != nil {
		return nil, err
	}
	statuses := framework.NewDefaultNodeToStatus()
	return &cycle{world: w, pod: pod, state: framework.NewCycleState(), statuses: statuses}, nil
}

// filter looks at every node, unlike kube-scheduler, which may stop when it has found enough.
func (c *cycle) filter(ctx context.Context, told answers) error {
	result, status, _ := c.RunPreFilterPlugins(ctx, c.state, c.pod)
	told["preFilter"] = verdict(status)
	if !status.IsSuccess() {
		c.statuses.SetAbsentNodesStatus(status)
		return nil
	}
	told["preFilter"] = withNames(verdict(status), result)
	all, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return err
	}
	verdicts := answers{}
	for _, node := range all {
		if name := node.Node().Name; result.AllNodes() || result.NodeNames.Has(name) {
			verdicts[name] = c.filterNode(ctx, node)
		}
	}
	told["filter"] = verdicts
	return nil
}

func (c *cycle) filterNode(ctx context.Context, node fwk.NodeInfo) answers {
	status := c.RunFilterPluginsWithNominatedPods(ctx, c.state, c.pod, node)
	if status.IsSuccess() {
		c.feasible = append(c.feasible, node)
	} else {
		c.statuses.Set(node.Node().Name, status)
	}
	return charged(status)
}

func (c *cycle) score(ctx context.Context, told answers) error {
	status := c.RunPreScorePlugins(ctx, c.state, c.pod, c.feasible)
	told["preScore"] = verdict(status)
	if !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := c.RunScorePlugins(ctx, c.state, c.pod, c.feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	weighted, totals := map[string]map[string]int64{}, map[string]int64{}
	for _, node := range scores {
		weighted[node.Name], totals[node.Name] = map[string]int64{}, node.TotalScore
		for _, each := range node.Scores {
			weighted[node.Name][each.Name] = each.Score
		}
	}
	told["weightedScore"], told["totalScore"] = weighted, totals
	return nil
}

// answerSequence binds each pod before it looks at the next; the smallest name wins among equal nodes.
func answerSequence(ctx context.Context, q *question) (answers, error) {
	running, placements := append([]*v1.Pod{}, q.ExistingPods...), []answers{}
	for _, pod := range q.PendingPods {
		c, err := newCycle(ctx, q, pod, running)
		if err != nil {
			return nil, err
		}
		placed, err := c.place(ctx)
		if err != nil {
			return nil, err
		}
		placements = append(placements, placed)
		if node := placed["node"].(string); node != "" {
			bound := pod.DeepCopy()
			bound.Spec.NodeName = node
			running = append(running, bound)
		}
	}
	return answers{"placements": placements}, nil
}

func (c *cycle) place(ctx context.Context) (answers, error) {
	placed := answers{"pod": c.pod.Namespace + "/" + c.pod.Name, "node": "", "totalScore": 0, "feasibleNodes": 0, "nodesWithTopScore": 0}
	told := answers{}
	if err := c.filter(ctx, told); err != nil || len(c.feasible) == 0 {
		return placed, err
	}
	if err := c.score(ctx, told); err != nil {
		return nil, err
	}
	best, top, equals := "", int64(-1), 0
	for name, total := range told["totalScore"].(map[string]int64) {
		switch {
		case total > top:
			best, top, equals = name, total, 1
		case total == top:
			best, equals = min(best, name), equals+1
		}
	}
	placed["node"], placed["totalScore"] = best, top
	placed["feasibleNodes"], placed["nodesWithTopScore"] = len(c.feasible), equals
	return placed, nil
}
