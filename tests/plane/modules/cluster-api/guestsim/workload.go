package main

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	inmemoryclient "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime/client"
	inmemoryserver "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	removeMember  = "etcd.k3s.cattle.io/remove"
	removedMember = "etcd.k3s.cattle.io/removed-node-name"
)

// workload is one cluster as its guests make it.
type workload struct {
	name       string // namespace/name
	cluster    *clusterv1.Cluster
	management client.Client
	memory     inmemoryruntime.Manager
	mux        *inmemoryserver.WorkloadClustersMux
	machines   map[string]bool // those that booted; whether each is a control plane
}

func (w *workload) has(machine string) bool {
	_, found := w.machines[machine]
	return found
}

func (w *workload) objects() inmemoryclient.Client {
	return w.memory.GetResourceGroup(w.name).GetClient()
}

// start opens the cluster's endpoint.
func (w *workload) start(ctx context.Context) error {
	endpoint := w.cluster.Spec.ControlPlaneEndpoint
	if endpoint.Host != host {
		return fmt.Errorf("the endpoint %s:%d cannot be played: only %s can", endpoint.Host, endpoint.Port, host)
	}
	w.memory.AddResourceGroup(w.name)
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespacePublic, metav1.NamespaceSystem, "kube-node-lease"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}}}
		if err := w.create(ctx, namespace); err != nil {
			return err
		}
	}
	if _, err := w.mux.InitWorkloadClusterListener(w.name, endpoint.Port); err != nil {
		return err
	}
	return w.mux.RegisterResourceGroup(w.name, w.name)
}

func (w *workload) stop() {
	if err := w.mux.DeleteWorkloadClusterListener(w.name); err != nil {
		say("%s: %v", w.name, err)
	}
	w.memory.DeleteResourceGroup(w.name)
	say("%s: gone", w.name)
}

// create leaves alone what is there already: a boot that failed half-way is tried again.
func (w *workload) create(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		if err := w.objects().Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

func (w *workload) boot(ctx context.Context, g *guest) error {
	controlPlane := util.IsControlPlaneMachine(g.machine)
	if err := w.create(ctx, newNode(g, controlPlane)); err != nil {
		return err
	}
	if controlPlane {
		if err := w.bootControlPlane(ctx, g.machine); err != nil {
			return err
		}
	}
	w.machines[g.machine.Name] = controlPlane
	say("%s: %s booted, control plane: %t", w.name, g.machine.Name, controlPlane)
	return nil
}

func (w *workload) bootControlPlane(ctx context.Context, machine *clusterv1.Machine) error {
	etcd, err := w.newEtcdPod(ctx, machine)
	if err != nil {
		return err
	}
	if err := w.create(ctx, append(controlPlaneObjects(machine), etcd)...); err != nil {
		return err
	}
	if !w.mux.HasEtcdMember(w.name, etcd.Name) {
		key, cert, err := w.authority(ctx, secret.EtcdCA)
		if err != nil {
			return err
		}
		if err := w.mux.AddEtcdMember(w.name, etcd.Name, cert, key); err != nil {
			return err
		}
	}
	server := "kube-apiserver-" + machine.Name
	if w.mux.HasAPIServer(w.name, server) {
		return nil
	}
	key, cert, err := w.authority(ctx, secret.ClusterCA)
	if err != nil {
		return err
	}
	return w.mux.AddAPIServer(w.name, server, cert, key)
}

// newEtcdPod makes the Pod that carries an etcd member; the first one leads, and all share the cluster's id.
func (w *workload) newEtcdPod(ctx context.Context, machine *clusterv1.Machine) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	labels := client.MatchingLabels{"component": "etcd", "tier": "control-plane"}
	if err := w.objects().List(ctx, pods, client.InNamespace(metav1.NamespaceSystem), labels); err != nil {
		return nil, err
	}
	cluster, led := "", false
	for _, pod := range pods.Items {
		if _, removed := pod.Annotations[cloudv1.EtcdMemberRemoved]; removed {
			continue
		}
		cluster = pod.Annotations[cloudv1.EtcdClusterIDAnnotationName]
		led = led || pod.Annotations[cloudv1.EtcdLeaderFromAnnotationName] != ""
	}
	return etcdPod(machine, cluster, led), nil
}

// authority reads one of the cluster's own certificate authorities.
func (w *workload) authority(ctx context.Context, purpose secret.Purpose) (*rsa.PrivateKey, *x509.Certificate, error) {
	found, err := secret.Get(ctx, w.management, client.ObjectKeyFromObject(w.cluster), purpose)
	if err != nil {
		return nil, nil, err
	}
	decoded, err := certs.DecodePrivateKeyPEM(found.Data[secret.TLSKeyDataName])
	if err != nil {
		return nil, nil, err
	}
	key, ok := decoded.(*rsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("the %s key is not RSA, which the in-memory servers need", purpose)
	}
	cert, err := certs.DecodeCertPEM(found.Data[secret.TLSCrtDataName])
	return key, cert, err
}

// removeMarkedMembers plays k3s's etcd controller, which drops a member once its Node is marked.
func (w *workload) removeMarkedMembers(ctx context.Context) {
	for machine, controlPlane := range w.machines {
		node := &corev1.Node{}
		if !controlPlane || w.objects().Get(ctx, client.ObjectKey{Name: machine}, node) != nil {
			continue
		}
		if node.Annotations[removeMember] != "true" || node.Annotations[removedMember] != "" {
			continue
		}
		w.removeEtcd(ctx, machine)
		node.Annotations[removedMember] = machine
		if err := w.objects().Update(ctx, node); err != nil {
			say("%s: %s: %v", w.name, machine, err)
		}
	}
}

func (w *workload) dropAllBut(ctx context.Context, present map[string]bool) {
	for machine, controlPlane := range w.machines {
		if present[machine] {
			continue
		}
		w.remove(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine}})
		if controlPlane {
			w.removeEtcd(ctx, machine)
			_ = w.mux.DeleteAPIServer(w.name, "kube-apiserver-"+machine) // gone already where a removal was tried before
			for _, component := range components {
				w.remove(ctx, staticPod(machine, component))
			}
		}
		delete(w.machines, machine)
		say("%s: %s is gone", w.name, machine)
	}
}

// removeEtcd drops a machine's member under either name: kubeadm's, or k3s's with its suffix.
func (w *workload) removeEtcd(ctx context.Context, machine string) {
	for _, name := range []string{machine, machine + k3sSuffix} {
		_ = w.mux.DeleteEtcdMember(w.name, "etcd-"+name) // only one of the two is there
		w.remove(ctx, staticPod(name, "etcd"))
	}
}

func (w *workload) remove(ctx context.Context, object client.Object) {
	if err := w.objects().Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		say("%s: %v", w.name, err)
	}
}

func isK3s(machine *clusterv1.Machine) bool {
	return strings.Contains(machine.Spec.Version, "+k3s")
}
