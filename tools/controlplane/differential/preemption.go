package differential

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// contests is how often two candidates meet. Among equals kube-scheduler takes the first of a map, whose order Go
// shuffles; each of two equals comes first at least once in eight times, so an equal is missed once in 10^11 contests.
const contests = 200

// preempt asks for candidates on every node where an eviction may help; all are tried, where kube-scheduler would stop.
func (c *cycle) preempt(ctx context.Context, told answers, force bool) error {
	plugin := c.built[defaultpreemption.Name].(*defaultpreemption.DefaultPreemption)
	if force {
		c.statuses = framework.NewNodeToStatus(nil, fwk.NewStatus(fwk.Unschedulable))
	}
	eligible, why := plugin.PodEligibleToPreemptOthers(ctx, c.pod, c.statuses.Get(c.pod.Status.NominatedNodeName))
	about := answers{"eligible": eligible}
	told["preemption"] = about
	if !eligible {
		about["eligibleReason"] = why
		return nil
	}
	potential, err := c.statuses.NodesForStatusCode(c.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil || len(potential) == 0 {
		return err
	}
	about["potentialNodes"] = namesOf(potential)
	return c.dryRun(ctx, plugin.Evaluator, potential, about)
}

func (c *cycle) dryRun(ctx context.Context, evaluator *preemption.Evaluator, potential []fwk.NodeInfo, about answers) error {
	budgets, err := evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return err
	}
	found, statuses, err := evaluator.DryRunPreemption(ctx, c.state, c.pod, potential, budgets, 0, int32(len(potential)))
	if err != nil {
		return err
	}
	if len(found) > 0 {
		about["candidates"] = candidatesOf(found)
		about["selectedAnyOf"] = selectable(ctx, evaluator, found)
	}
	helpless := answers{}
	statuses.ForEachExplicitNode(func(node string, status *fwk.Status) {
		helpless[node] = charged(status)
	})
	if len(helpless) > 0 {
		about["nodeStatuses"] = helpless
	}
	return nil
}

func candidatesOf(found []preemption.Candidate) answers {
	told := answers{}
	for _, each := range found {
		victims := []string{}
		for _, pod := range each.Victims().Pods {
			victims = append(victims, pod.Namespace+"/"+pod.Name)
		}
		told[each.Name()] = answers{"victims": victims, "pdbViolations": each.Victims().NumPDBViolations}
	}
	return told
}

// selectable are the nodes that may be chosen: one that is, and each that wins against it now and then.
func selectable(ctx context.Context, evaluator *preemption.Evaluator, found []preemption.Candidate) []string {
	best := evaluator.SelectCandidate(ctx, found)
	told := []string{best.Name()}
	for _, other := range found {
		if other.Name() != best.Name() && mayWin(ctx, evaluator, other, best) {
			told = append(told, other.Name())
		}
	}
	return sorted(told)
}

func mayWin(ctx context.Context, evaluator *preemption.Evaluator, one, best preemption.Candidate) bool {
	for range contests {
		if evaluator.SelectCandidate(ctx, []preemption.Candidate{one, best}).Name() == one.Name() {
			return true
		}
	}
	return false
}

func namesOf(nodes []fwk.NodeInfo) []string {
	told := make([]string, len(nodes))
	for i, node := range nodes {
		told[i] = node.Node().Name
	}
	return sorted(told)
}
