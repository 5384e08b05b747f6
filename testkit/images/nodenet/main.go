// nodenet gives the pods of one node their network, with what the kubelet knows and nothing else.
//
// It writes the node's CNI configuration, keeps a tunnel to the pods of the other nodes, and then
// takes the node's resolver away: after joining, the node needs no name but its peers', and a
// query that a resolver passes on would leave the machine.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

const (
	kubeletConfig = "/etc/kubernetes/kubelet.conf"
	authority     = "/etc/kubernetes/pki/ca.crt"
	clientCert    = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	cniConfig     = "/etc/cni/net.d/10-nodenet.conflist"
	deadResolver  = "/kind/pod-resolv.conf"
	tunnel        = "vx0"
)

type node struct {
	Metadata struct{ Name string }
	Spec     struct{ PodCIDR string }
	Status   struct {
		Addresses []struct{ Type, Address string }
	}
}

func (n node) address() string {
	for _, a := range n.Status.Addresses {
		if a.Type == "InternalIP" && !strings.Contains(a.Address, ":") {
			return a.Address
		}
	}
	return ""
}

// gateway is the first address of the node's pod range as used on its end of the tunnel.
func (n node) gateway() string { return strings.Split(n.Spec.PodCIDR, "/")[0] }

func main() {
	self, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	for {
		pause := 15 * time.Second
		nodes, err := list()
		if err == nil {
			err = apply(self, nodes)
		}
		if err != nil {
			log.Print(err)
			pause = time.Second
		}
		time.Sleep(pause)
	}
}

// list asks the API server for all nodes, as the kubelet: the right to is part of a node's role.
func list() ([]node, error) {
	config, err := os.ReadFile(kubeletConfig)
	if err != nil {
		return nil, err
	}
	server := regexp.MustCompile(`server: *(\S+)`).FindSubmatch(config)
	if server == nil {
		return nil, fmt.Errorf("no server in %s", kubeletConfig)
	}
	ca, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(clientCert, clientCert)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}},
		DisableKeepAlives: true,
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: transport}
	answer, err := client.Get(string(server[1]) + "/api/v1/nodes")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("list nodes: %s", answer.Status)
	}
	var found struct{ Items []node }
	return found.Items, json.NewDecoder(answer.Body).Decode(&found)
}

func apply(self string, nodes []node) error {
	var own *node
	for i := range nodes {
		if nodes[i].Metadata.Name == self {
			own = &nodes[i]
		}
	}
	if own == nil || own.Spec.PodCIDR == "" {
		return fmt.Errorf("%s has no pod range yet", self)
	}
	if err := connect(*own, nodes); err != nil {
		return err
	}
	if err := masquerade(own.Spec.PodCIDR); err != nil {
		return err
	}
	if err := writeCNI(own.Spec.PodCIDR); err != nil {
		return err
	}
	return closeResolver(nodes)
}

// connect keeps the tunnel: packets between pods of two nodes travel inside UDP between the nodes.
// Plain routes would do, but hosts that filter bridged traffic drop them.
func connect(own node, nodes []node) error {
	if len(nodes) < 2 {
		return nil
	}
	if run("ip", "link", "show", tunnel) != nil {
		if err := run("ip", "link", "add", tunnel, "type", "vxlan", "id", "7", "dev", "eth0", "dstport", "4789"); err != nil {
			return err
		}
	}
	if err := run("ip", "addr", "replace", own.gateway()+"/32", "dev", tunnel); err != nil {
		return err
	}
	if err := run("ip", "link", "set", tunnel, "up"); err != nil {
		return err
	}
	for _, other := range nodes {
		if other.Metadata.Name == own.Metadata.Name || other.Spec.PodCIDR == "" || other.address() == "" {
			continue
		}
		err := run("bridge", "fdb", "append", "00:00:00:00:00:00", "dev", tunnel, "dst", other.address())
		if err != nil && !strings.Contains(err.Error(), "exists") {
			return err
		}
		if err := run("ip", "route", "replace", other.Spec.PodCIDR, "via", other.gateway(), "dev", tunnel, "onlink"); err != nil {
			return err
		}
	}
	return nil
}

// masquerade lets pods reach the other containers of the node's network, and so this machine.
func masquerade(pods string) error {
	rule := []string{"POSTROUTING", "-s", pods, "-o", "eth0", "-j", "MASQUERADE"}
	if run(append([]string{"iptables", "-w", "-t", "nat", "-C"}, rule...)...) == nil {
		return nil
	}
	return run(append([]string{"iptables", "-w", "-t", "nat", "-A"}, rule...)...)
}

func writeCNI(pods string) error {
	config := fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "nodenet", "plugins": [
  {"type": "bridge", "bridge": "cni0", "mtu": 1450, "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`, pods)
	if old, _ := os.ReadFile(cniConfig); string(old) == config {
		return nil
	}
	log.Printf("pod range %s", pods)
	if err := os.WriteFile(cniConfig+".new", []byte(config), 0o644); err != nil {
		return err
	}
	return os.Rename(cniConfig+".new", cniConfig)
}

// closeResolver writes the nodes' names down and then points the resolver at nothing.
func closeResolver(nodes []node) error {
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.address() == "" {
			return nil
		}
		line := n.address() + " " + n.Metadata.Name + "\n"
		if !strings.Contains(string(hosts), line) {
			hosts = append(hosts, line...)
		}
	}
	// Both files are mounts of the container engine: write into them, they can't be replaced.
	if err := os.WriteFile("/etc/hosts", hosts, 0o644); err != nil {
		return err
	}
	dead, err := os.ReadFile(deadResolver)
	if err != nil {
		return err
	}
	return os.WriteFile("/etc/resolv.conf", dead, 0o644)
}

func run(words ...string) error {
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %v: %s", words, err, out)
	}
	return nil
}
