// Command controlplane is kube-apiserver, kube-controller-manager, kube-scheduler and kubectl of one Kubernetes release in
// one binary. The name it is called by says which of them it is; the flags are theirs, untouched. The go.mod is written by
// release.py, from the release's own.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// Each part is built only when asked for, because building a command registers its flags.
var parts = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

func main() {
	part := parts[filepath.Base(os.Args[0])]
	if part == nil {
		fmt.Fprintln(os.Stderr, "call me as kube-apiserver, kube-controller-manager, kube-scheduler or kubectl")
		os.Exit(2)
	}
	os.Exit(cli.Run(part()))
}
