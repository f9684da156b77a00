package main

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	inmemoryserver "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var proxmoxMachine = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha2", Kind: "ProxmoxMachine"}

// simulator looks at the management cluster again and again, and makes the guests' side follow.
type simulator struct {
	management client.Client
	memory     inmemoryruntime.Manager
	mux        *inmemoryserver.WorkloadClustersMux
	clusters   map[string]*workload // by namespace/name
}

// guest is what is known of a Machine's VM.
type guest struct {
	machine    *clusterv1.Machine
	providerID string
	address    string
	runs       bool
}

func (s *simulator) round(ctx context.Context) error {
	clusters, machines := &clusterv1.ClusterList{}, &clusterv1.MachineList{}
	if err := s.management.List(ctx, clusters); err != nil {
		return err
	}
	if err := s.management.List(ctx, machines); err != nil {
		return err
	}
	there := map[string]bool{}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if cluster.Spec.InfrastructureRef.Kind != "ProxmoxCluster" {
			continue
		}
		name := klog.KObj(cluster).String()
		there[name] = true
		s.follow(ctx, name, cluster, machines.Items)
	}
	for name, w := range s.clusters {
		if !there[name] {
			w.stop()
			delete(s.clusters, name)
		}
	}
	return nil
}

// follow brings one cluster's guests to what its Machines are now.
func (s *simulator) follow(ctx context.Context, name string, cluster *clusterv1.Cluster, machines []clusterv1.Machine) {
	present := map[string]bool{}
	for i := range machines {
		machine := &machines[i]
		if machine.Namespace != cluster.Namespace || machine.Spec.ClusterName != cluster.Name {
			continue
		}
		g, err := s.guestOf(ctx, machine)
		if err != nil {
			continue // no VM yet, or none any more
		}
		present[machine.Name] = true
		if w := s.clusters[name]; !g.runs || !machine.DeletionTimestamp.IsZero() || (w != nil && w.has(machine.Name)) {
			continue
		}
		if err := s.boot(ctx, name, cluster, g); err != nil {
			say("%s: %s does not boot yet: %v", name, machine.Name, err)
		}
	}
	if w := s.clusters[name]; w != nil {
		w.removeMarkedMembers(ctx)
		w.dropAllBut(ctx, present)
	}
}

func (s *simulator) boot(ctx context.Context, name string, cluster *clusterv1.Cluster, g *guest) error {
	w := s.clusters[name]
	if w == nil {
		w = &workload{name: name, cluster: cluster, management: s.management, memory: s.memory, mux: s.mux, machines: map[string]bool{}}
		if err := w.start(ctx); err != nil {
			return err
		}
		s.clusters[name] = w
	}
	return w.boot(ctx, g)
}

func (s *simulator) guestOf(ctx context.Context, machine *clusterv1.Machine) (*guest, error) {
	vm := &unstructured.Unstructured{}
	vm.SetGroupVersionKind(proxmoxMachine)
	key := client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name}
	if err := s.management.Get(ctx, key, vm); err != nil {
		return nil, err
	}
	state, _, _ := unstructured.NestedString(vm.Object, "status", "vmStatus")
	id, _, _ := unstructured.NestedString(vm.Object, "spec", "providerID")
	return &guest{machine: machine, providerID: id, address: internalIP(vm), runs: state == "ready"}, nil
}

func internalIP(vm *unstructured.Unstructured) string {
	addresses, _, _ := unstructured.NestedSlice(vm.Object, "status", "addresses")
	for _, entry := range addresses {
		if address, ok := entry.(map[string]any); ok && address["type"] == "InternalIP" {
			text, _ := address["address"].(string)
			return text
		}
	}
	return ""
}
