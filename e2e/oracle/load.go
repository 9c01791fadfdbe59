package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// object is what every kind here is.
type object interface {
	runtime.Object
	metav1.Object
}

// kind is a sort of object that the scheduler, or the admission before it, reads.
type kind struct {
	example    object
	namespaced bool
}

var kinds = map[string]kind{
	"Node":                  {&v1.Node{}, false},
	"Namespace":             {&v1.Namespace{}, false},
	"Pod":                   {&v1.Pod{}, true},
	"PersistentVolume":      {&v1.PersistentVolume{}, false},
	"PersistentVolumeClaim": {&v1.PersistentVolumeClaim{}, true},
	"Service":               {&v1.Service{}, true},
	"ReplicationController": {&v1.ReplicationController{}, true},
	"ReplicaSet":            {&appsv1.ReplicaSet{}, true},
	"StatefulSet":           {&appsv1.StatefulSet{}, true},
	"PodDisruptionBudget":   {&policyv1.PodDisruptionBudget{}, true},
	"StorageClass":          {&storagev1.StorageClass{}, false},
	"CSINode":               {&storagev1.CSINode{}, false},
	"CSIDriver":             {&storagev1.CSIDriver{}, false},
	"CSIStorageCapacity":    {&storagev1.CSIStorageCapacity{}, true},
	"VolumeAttachment":      {&storagev1.VolumeAttachment{}, false},
	"PriorityClass":         {&schedulingv1.PriorityClass{}, false},
	"RuntimeClass":          {&nodev1.RuntimeClass{}, false},
	"ResourceSlice":         {&resourcev1.ResourceSlice{}, false},
	"ResourceClaim":         {&resourcev1.ResourceClaim{}, true},
	"ResourceClaimTemplate": {&resourcev1.ResourceClaimTemplate{}, true},
	"DeviceClass":           {&resourcev1.DeviceClass{}, false},
	"DeviceTaintRule":       {&resourcev1.DeviceTaintRule{}, false},
	"PodGroup":              {&schedulingv1beta1.PodGroup{}, true},
	"CompositePodGroup":     {&schedulingv1alpha3.CompositePodGroup{}, true},
}

// cluster holds the objects of one file by kind, in the order of the file, and says what was left out.
type cluster struct {
	objects map[string][]object
	notes   []string
	names   sets.Set[string]
}

func (c *cluster) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

func loadCluster(path string) (*cluster, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &cluster{objects: map[string][]object{}, names: sets.New[string]()}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", path, number, err)
		}
		body, err := utilyaml.ToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", path, number, err)
		}
		if err := c.addDocument(body, ""); err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", path, number, err)
		}
	}
}

// addDocument takes one object or a list of them. The items of a typed list (PodList) may do without
// a kind: impliedKind is theirs.
func (c *cluster) addDocument(body []byte, impliedKind string) error {
	var head struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	if bytes.Equal(bytes.TrimSpace(body), []byte("null")) {
		return nil
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return err
	}
	if head.Kind == "" {
		head.Kind = impliedKind
	}
	if strings.HasSuffix(head.Kind, "List") {
		for i, item := range head.Items {
			if err := c.addDocument(item, strings.TrimSuffix(head.Kind, "List")); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	known, ok := kinds[head.Kind]
	if !ok || (head.Kind == "PodGroup" && strings.HasPrefix(head.APIVersion, "scheduling.x-k8s.io/")) {
		c.note("kind %q is left out", head.Kind)
		return nil
	}
	defaults := known.example.GetObjectKind().GroupVersionKind()
	decoded, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(body, &defaults, nil)
	if err != nil {
		return err
	}
	return c.add(head.Kind, decoded.(object))
}

func (c *cluster) add(kindName string, obj object) error {
	if fmt.Sprintf("%T", obj) != fmt.Sprintf("%T", kinds[kindName].example) {
		c.note("%s %s of another API version is left out", kindName, obj.GetName())
		return nil
	}
	if kinds[kindName].namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	name := keyOf(obj)
	if obj.GetName() == "" {
		return fmt.Errorf("%s without metadata.name", kindName)
	}
	if c.names.Has(kindName + " " + name) {
		c.note("second %s %s is left out", kindName, name)
		return nil
	}
	c.names.Insert(kindName + " " + name)
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(kindName + "-" + name))
	}
	if obj.GetResourceVersion() == "" {
		obj.SetResourceVersion("1")
	}
	c.objects[kindName] = append(c.objects[kindName], obj)
	return nil
}

func keyOf(obj metav1.Object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}

func list[T object](c *cluster, kindName string) []T {
	result := make([]T, 0, len(c.objects[kindName]))
	for _, obj := range c.objects[kindName] {
		result = append(result, obj.(T))
	}
	return result
}

// pendingPods are the Pods to judge, in the order of the file.
func (c *cluster) pendingPods() []*v1.Pod {
	var pending []*v1.Pod
	for _, pod := range list[*v1.Pod](c, "Pod") {
		if pod.Spec.NodeName == "" && !isTerminal(pod) {
			pending = append(pending, pod)
		}
	}
	return pending
}

func isTerminal(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// adoptPendingPods gives every pending Pod to the default profile, whoever it asked for: without a
// configuration, the file is asked about as if it were for kube-scheduler.
func (c *cluster) adoptPendingPods() {
	for _, pod := range c.pendingPods() {
		pod.Spec.SchedulerName = v1.DefaultSchedulerName
	}
}

// takeOffItsNode lets the Pod of this name, if it runs, be pending: without a node, and without what a kubelet says.
func (c *cluster) takeOffItsNode(name string) {
	for _, pod := range list[*v1.Pod](c, "Pod") {
		if keyOf(pod) == name && !isTerminal(pod) {
			pod.Spec.NodeName = ""
			pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = nil, nil
			pod.Status.Resources, pod.Status.AllocatedResources = nil, nil
			pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
				return c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress
			})
		}
	}
}
