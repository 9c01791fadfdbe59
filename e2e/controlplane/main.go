// Controlplane is a Kubernetes control plane in one program: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kubectl, each under its own name. One program links what the five share only once.
//
// The applet is argv[0] when the program was started through a link of that name, else the first argument.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var applets = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand) },
	"kube-controller-manager": func() { run(controllermanager.NewControllerManagerCommand) },
	"kube-scheduler":          func() { run(func() *cobra.Command { return scheduler.NewSchedulerCommand() }) },
	"kubectl":                 func() { util.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand())) },
}

// run builds the command only now: constructors change global flags and feature gates.
func run(newCommand func() *cobra.Command) {
	os.Exit(cli.Run(newCommand()))
}

func main() {
	if applet, ok := applets[filepath.Base(os.Args[0])]; ok {
		applet()
		return
	}
	if len(os.Args) > 1 {
		if applet, ok := applets[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			applet()
			return
		}
	}
	names := make([]string, 0, len(applets))
	for name := range applets {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "usage: controlplane %s [flags]\n", strings.Join(names, "|"))
	os.Exit(2)
}
