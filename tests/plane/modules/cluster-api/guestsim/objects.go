package main

import (
	"math/rand"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// k3sSuffix: k3s names its etcd members NODE-HASH, and its provider takes the last part off.
const k3sSuffix = "-0a1b2c3d"

var components = []string{"kube-apiserver", "kube-scheduler", "kube-controller-manager"}

func newNode(g *guest, controlPlane bool) *corev1.Node {
	name := g.machine.Name
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}, Annotations: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: g.providerID},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: g.machine.Spec.Version, OSImage: "simulated", ContainerRuntimeVersion: "containerd://2.0.0"},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: g.address},
				{Type: corev1.NodeHostName, Address: name},
			},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			},
		},
	}
	if isK3s(g.machine) {
		node.Annotations["k3s.io/hostname"] = name // the k3s provider writes into this map, and needs it to be there
	}
	if controlPlane {
		const role = "node-role.kubernetes.io/"
		value := ""
		if isK3s(g.machine) { // which labels its servers so, and has etcd on them
			value = "true"
			node.Labels[role+"master"], node.Labels[role+"etcd"] = value, value
		}
		node.Labels[role+"control-plane"] = value
		node.Spec.Taints = []corev1.Taint{{Key: role + "control-plane", Effect: corev1.TaintEffectNoSchedule}}
	}
	return node
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}
}

func inSystem(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name, Labels: labels}
}

func staticPod(node, component string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: inSystem(component+"-"+node, map[string]string{"component": component, "tier": "control-plane"}),
		Spec:       corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

func etcdPod(machine *clusterv1.Machine, cluster string, led bool) *corev1.Pod {
	pod := staticPod(machine.Name, "etcd")
	if isK3s(machine) {
		pod.Labels["app"] = "etcd-proxy" // where the k3s provider looks for members
		pod.Name += k3sSuffix
	}
	if cluster == "" {
		cluster = newID()
	}
	pod.Annotations = map[string]string{cloudv1.EtcdClusterIDAnnotationName: cluster, cloudv1.EtcdMemberIDAnnotationName: newID()}
	if !led {
		pod.Annotations[cloudv1.EtcdLeaderFromAnnotationName] = time.Now().Format(time.RFC3339)
	}
	return pod
}

func newID() string { return strconv.Itoa(1 + rand.Intn(1<<30)) }

// controlPlaneObjects is what the control plane's provider reads and edits in a workload cluster.
func controlPlaneObjects(machine *clusterv1.Machine) []client.Object {
	objects := make([]client.Object, 0, 12)
	for _, component := range components {
		objects = append(objects, staticPod(machine.Name, component))
	}
	if isK3s(machine) {
		serving := &corev1.Secret{ObjectMeta: inSystem("k3s-serving", nil), Type: corev1.SecretTypeTLS}
		serving.Data = map[string][]byte{"tls.crt": []byte("-"), "tls.key": []byte("-")}
		return append(objects, serving)
	}
	const getNodes = "kubeadm:get-nodes"
	return append(objects,
		&corev1.ConfigMap{ObjectMeta: inSystem("kubeadm-config", nil), Data: map[string]string{"ClusterConfiguration": ""}},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: getNodes},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: getNodes},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: getNodes},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:bootstrappers:kubeadm:default-node-token"}},
		},
		&appsv1.DaemonSet{
			ObjectMeta: inSystem("kube-proxy", map[string]string{"component": "kube-proxy"}),
			Spec:       appsv1.DaemonSetSpec{Template: podTemplate("kube-proxy", "registry.k8s.io/kube-proxy:"+machine.Spec.Version)},
		},
		&corev1.ConfigMap{ObjectMeta: inSystem("coredns", nil), Data: map[string]string{"Corefile": ".:53 {\n}\n"}},
		&appsv1.Deployment{
			ObjectMeta: inSystem("coredns", nil),
			Spec:       appsv1.DeploymentSpec{Template: podTemplate("coredns", "registry.k8s.io/coredns/coredns:v1.8.4")},
		},
	)
}

func podTemplate(container, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: image}}}}
}
