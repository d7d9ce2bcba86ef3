// Command controlplane is etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl in one binary, and
// with them differential, which asks kube-scheduler's plugins by themselves. The name it is called by, or else its first
// argument, says which of them it is; the flags are theirs, untouched.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"trimtab.invalid/controlplane/differential"
)

// Each part is built only when asked for, because building a command registers its flags.
var parts = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"differential":            differential.NewCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if !known(name) && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	if !known(name) {
		fmt.Fprintln(os.Stderr, "call me as etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl or differential")
		os.Exit(2)
	}
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	os.Exit(cli.Run(parts[name]()))
}

func known(name string) bool {
	return name == "etcd" || parts[name] != nil
}
