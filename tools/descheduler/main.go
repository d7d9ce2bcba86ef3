// Command descheduler is the SIG descheduler outside of a pod: the certificates that it verifies Prometheus with are in the
// file that DESCHEDULER_CA_FILE names, not in the file system of a pod. All else is its own main.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"sigs.k8s.io/descheduler/cmd/descheduler/app"
	"sigs.k8s.io/descheduler/pkg/descheduler/client"
)

func main() {
	client.K8sPodCAFilePath = os.Getenv("DESCHEDULER_CA_FILE")
	command := app.NewDeschedulerCommand(os.Stdout)
	command.AddCommand(app.NewVersionCommand())
	os.Exit(cli.Run(command))
}
