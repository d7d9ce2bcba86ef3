// Command e2e runs the sig-scheduling specs of Kubernetes' own end-to-end suite against a running cluster. The flags are
// those of e2e.test: --kubeconfig, --provider, --ginkgo.focus, --ginkgo.junit-report and so on.
package main

import (
	"flag"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"

	_ "k8s.io/kubernetes/test/e2e/feature"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	_ "k8s.io/kubernetes/test/utils/format"
)

// outcome is what Ginkgo needs of a *testing.T, so that this is a plain program and no test binary.
type outcome struct{ failed bool }

func (o *outcome) Fail() { o.failed = true }

func main() {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	framework.AfterReadingAllFlags(&framework.TestContext)

	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	var result outcome
	ginkgo.RunSpecs(&result, "sig-scheduling", suite, reporter)
	if result.failed {
		os.Exit(1)
	}
}
