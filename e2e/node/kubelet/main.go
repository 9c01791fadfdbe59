// Kubelet is what a node runs of Kubernetes in one program: kubelet, kube-proxy and the DRA driver of Kubernetes' own
// tests, each under its own name.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	dra "k8s.io/kubernetes/test/e2e/dra/test-driver/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kube-proxy":
		os.Exit(cli.Run(proxy.NewProxyCommand()))
	case "dra-test-driver":
		os.Exit(cli.Run(dra.NewCommand()))
	default:
		fmt.Fprintf(os.Stderr, "%s: started as none of kubelet, kube-proxy and dra-test-driver\n", name)
		os.Exit(2)
	}
}
