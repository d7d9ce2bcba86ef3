// Package differential answers questions about pods and nodes with kube-scheduler's own plugins, so that another
// scheduler can be compared with them. One JSON object a line comes in, one goes out, in the same order; the form of both
// is that of the recorded cases under tests/conformance.
package differential

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// longestQuestion is far above any cluster that is worth comparing.
const longestQuestion = 64 << 20

type question struct {
	Plugin          string          `json:"plugin"`
	ExtensionPoints []string        `json:"extensionPoints"`
	Args            json.RawMessage `json:"args"`
	Pod             *v1.Pod         `json:"pod"`
	Nodes           []*v1.Node      `json:"nodes"`
	ExistingPods    []*v1.Pod       `json:"existingPods"`
	NominatedPods   []*v1.Pod       `json:"nominatedPods"`
	NominatedQueued bool            `json:"nominatedQueued"`
	PendingPods     []*v1.Pod       `json:"pendingPods"`
	Objects         objects         `json:"objects"`
	ScoreNodes      []string        `json:"scoreNodes"`
	PreemptionMode  string          `json:"preemptionMode"`
	Queue           []queued        `json:"queue"`
}

type queued struct {
	Pod       *v1.Pod   `json:"pod"`
	Timestamp time.Time `json:"timestamp"`
}

type objects struct {
	Namespaces             []*v1.Namespace               `json:"namespaces"`
	Services               []*v1.Service                 `json:"services"`
	ReplicaSets            []*apps.ReplicaSet            `json:"replicaSets"`
	ReplicationControllers []*v1.ReplicationController   `json:"replicationControllers"`
	StatefulSets           []*apps.StatefulSet           `json:"statefulSets"`
	PersistentVolumes      []*v1.PersistentVolume        `json:"persistentVolumes"`
	PersistentVolumeClaims []*v1.PersistentVolumeClaim   `json:"persistentVolumeClaims"`
	StorageClasses         []*storage.StorageClass       `json:"storageClasses"`
	CSINodes               []*storage.CSINode            `json:"csiNodes"`
	CSIDrivers             []*storage.CSIDriver          `json:"csiDrivers"`
	CSIStorageCapacities   []*storage.CSIStorageCapacity `json:"csiStorageCapacities"`
	VolumeAttachments      []*storage.VolumeAttachment   `json:"volumeAttachments"`
	PodDisruptionBudgets   []*policy.PodDisruptionBudget `json:"podDisruptionBudgets"`
}

// asks says whether one of the extension points is among those that the question names.
func (q *question) asks(points ...string) bool {
	for _, wanted := range points {
		for _, named := range q.ExtensionPoints {
			if wanted == named {
				return true
			}
		}
	}
	return false
}

type answers = map[string]any

// NewCommand is the program: questions from standard input until it ends.
func NewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "differential",
		Short: "Answer questions with kube-scheduler's own plugins, one JSON object a line",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answerAll(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func answerAll(ctx context.Context, in io.Reader, out io.Writer) error {
	klog.SetLogger(logr.Discard())
	metrics.Register()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), longestQuestion)
	encoder := json.NewEncoder(out)
	for lines.Scan() {
		if err := encoder.Encode(answerLine(ctx, lines.Bytes())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// answerLine never fails: a question that breaks a plugin is answered with what broke.
func answerLine(ctx context.Context, line []byte) (told answers) {
	defer func() {
		if broken := recover(); broken != nil {
			told = answers{"error": fmt.Sprint(broken)}
		}
	}()
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return answers{"error": err.Error()}
	}
	told, err := answer(ctx, &q)
	if err != nil {
		return answers{"error": err.Error()}
	}
	return told
}

func answer(ctx context.Context, q *question) (answers, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	switch q.Plugin {
	case "DefaultProfile", "DefaultProfileSequence", "DefaultPreemption":
		return answerWhole(ctx, q)
	}
	return answerSingle(ctx, q)
}
