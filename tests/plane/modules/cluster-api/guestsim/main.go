// guestsim plays the guests of a simulated Proxmox VE. For every ProxmoxMachine whose VM runs it makes the Node and, on
// a control plane, the static Pods, an etcd member and an API server at the Cluster's endpoint, all in memory, by
// Cluster API's own in-memory servers. So the control plane's provider and the Machines see a workload cluster that
// answers.
//
// It forgets all of that when it ends: clusters that it played before do not come back.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	inmemoryserver "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const host = "127.0.0.1"

func main() {
	// controller-runtime registers --kubeconfig beside these.
	debugPort := flag.Int("debug-port", 0, "port of the in-memory servers' own debug page")
	minPort := flag.Int("min-port", 28000, "first port that the in-memory servers may choose by themselves")
	every := flag.Duration("every", 500*time.Millisecond, "how often to look at the management cluster")
	flag.Parse()

	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), *debugPort, *minPort, *every); err != nil {
		say("stopped: %v", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, debugPort, minPort int, every time.Duration) error {
	management, err := managementClient()
	if err != nil {
		return err
	}
	memory, err := memoryScheme()
	if err != nil {
		return err
	}
	manager := inmemoryruntime.NewManager(memory)
	if err := manager.Start(ctx); err != nil {
		return err
	}
	ports := inmemoryserver.CustomPorts{MinPort: int32(minPort), MaxPort: int32(minPort + 999), DebugPort: int32(debugPort)}
	mux, err := inmemoryserver.NewWorkloadClustersMux(manager, host, ports)
	if err != nil {
		return err
	}
	s := &simulator{management: management, memory: manager, mux: mux, clusters: map[string]*workload{}}
	say("ready")
	for {
		if err := s.round(ctx); err != nil && ctx.Err() == nil {
			say("%v", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

func managementClient() (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := addAll(scheme, corev1.AddToScheme, clusterv1.AddToScheme); err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 100, 200
	return client.New(config, client.Options{Scheme: scheme})
}

func memoryScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, addAll(scheme, cloudv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme,
		storagev1.AddToScheme, apiextensionsv1.AddToScheme, policyv1.AddToScheme)
}

func addAll(scheme *runtime.Scheme, adders ...func(*runtime.Scheme) error) error {
	for _, add := range adders {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

func say(format string, values ...any) {
	fmt.Printf(time.Now().Format("15:04:05.000 ")+format+"\n", values...)
}
