// Command trimaran answers questions about pods and nodes with LowRiskOverCommitment of kubernetes-sigs/scheduler-plugins
// itself, so that Trimtab's plugin of that name can be compared with it. One JSON object a line comes in, one goes out, in
// the same order; the form of both is that of the recorded cases under tests/conformance.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	configv1 "sigs.k8s.io/scheduler-plugins/apis/config/v1"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
)

const longestQuestion = 64 << 20

type question struct {
	Args         json.RawMessage `json:"args"`
	Pod          *v1.Pod         `json:"pod"`
	Nodes        []*v1.Node      `json:"nodes"`
	ExistingPods []*v1.Pod       `json:"existingPods"`
	Metrics      json.RawMessage `json:"metrics"`
}

type answers = map[string]any

// watcher stands for load-watcher: it tells whoever asks what the question says.
type watcher struct {
	*httptest.Server
	body []byte
}

func newWatcher() *watcher {
	made := &watcher{}
	made.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(made.body)
	}))
	return made
}

func main() {
	klog.SetLogger(logr.Discard())
	source := newWatcher()
	defer source.Close()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), longestQuestion)
	encoder := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		if err := encoder.Encode(answerLine(source, lines.Bytes())); err != nil {
			os.Exit(1)
		}
	}
}

// answerLine never fails: a question that breaks the plugin is answered with what broke.
func answerLine(source *watcher, line []byte) (told answers) {
	defer func() {
		if broken := recover(); broken != nil {
			told = answers{"error": fmt.Sprint(broken)}
		}
	}()
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return answers{"error": err.Error()}
	}
	scores, err := answer(source, &q)
	if err != nil {
		return answers{"error": err.Error()}
	}
	return answers{"score": scores}
}

// answer makes a plugin for each question: it asks for metrics once at its start, and then every half minute.
func answer(source *watcher, q *question) (map[string]int64, error) {
	args, err := argsOf(q.Args)
	if err != nil {
		return nil, err
	}
	source.body, args.WatcherAddress = q.Metrics, source.URL
	ctx := klog.NewContext(context.Background(), logr.Discard())
	made, err := lowriskovercommitment.New(ctx, args, nil)
	if err != nil {
		return nil, err
	}
	plugin := made.(*lowriskovercommitment.LowRiskOverCommitment)
	state, nodes := framework.NewCycleState(), nodesOf(q)
	if status := plugin.PreScore(ctx, state, q.Pod, nodes); !status.IsSuccess() {
		return nil, status.AsError()
	}
	told := map[string]int64{}
	for _, node := range nodes {
		score, status := plugin.Score(ctx, state, q.Pod, node)
		if !status.IsSuccess() {
			return nil, status.AsError()
		}
		told[node.Node().Name] = score
	}
	return told, nil
}

// argsOf reads arguments as a configuration file would be read, with the project's own defaults.
func argsOf(raw json.RawMessage) (*config.LowRiskOverCommitmentArgs, error) {
	var given configv1.LowRiskOverCommitmentArgs
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, err
		}
	}
	configv1.SetDefaults_LowRiskOverCommitmentArgs(&given)
	var args config.LowRiskOverCommitmentArgs
	return &args, configv1.Convert_v1_LowRiskOverCommitmentArgs_To_config_LowRiskOverCommitmentArgs(&given, &args, nil)
}

func nodesOf(q *question) []*framework.NodeInfo {
	infos := make([]*framework.NodeInfo, 0, len(q.Nodes))
	byName := map[string]*framework.NodeInfo{}
	for _, node := range q.Nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		byName[node.Name] = info
		infos = append(infos, info)
	}
	for _, pod := range q.ExistingPods {
		if info := byName[pod.Spec.NodeName]; info != nil {
			info.AddPod(pod)
		}
	}
	return infos
}
