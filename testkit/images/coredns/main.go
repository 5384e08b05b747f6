// CoreDNS with the plug-ins that kubeadm's Corefile names and no others.
// The stock main compiles in the SDKs of several clouds, which takes minutes and serves nothing here.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// The order is that of CoreDNS' own plugin.cfg: a query passes them from first to last.
	dnsserver.Directives = []string{
		"reload", "health", "ready", "prometheus", "errors", "loadbalance", "cache",
		"kubernetes", "loop", "forward",
	}
	coremain.Run()
}
