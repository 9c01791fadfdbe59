package main

import (
	"encoding/json"
	"maps"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/utils/ptr"
)

const defaultEvictionSeconds = int64(300)

// admit does to the objects of a raw file what the API server and its default admission plugins do
// when they are created. Objects that come from a cluster pass through unchanged.
func (c *cluster) admit() {
	c.addImpliedNamespaces()
	c.makeClaims()
	for _, objects := range c.objects {
		for _, obj := range objects {
			legacyscheme.Scheme.Default(obj)
		}
	}
	c.admitClaims()
	c.storeDevices()
	for _, podGroup := range list[*schedulingv1beta1.PodGroup](c, "PodGroup") {
		c.admitGroupPriority(podGroup.Spec.PriorityClassName, &podGroup.Spec.Priority)
	}
	for _, group := range list[*schedulingv1alpha3.CompositePodGroup](c, "CompositePodGroup") {
		c.admitGroupPriority(group.Spec.PriorityClassName, &group.Spec.Priority)
	}
	for _, pod := range list[*v1.Pod](c, "Pod") {
		c.admitRuntimeClass(pod)
		c.admitPriority(pod)
		addDefaultTolerations(pod)
		mergeLabelKeys(pod)
		completePodLevel(pod)
		asStored(pod)
	}
}

// completePodLevel fills in the resources of the Pod level, as the API server does after admission.
func completePodLevel(pod *v1.Pod) {
	if pod.Spec.Resources == nil {
		return
	}
	internal := &core.Pod{}
	completed := &v1.Pod{}
	must(legacyscheme.Scheme.Convert(pod, internal, nil))
	podutil.DefaultPodLevelResources(internal)
	must(legacyscheme.Scheme.Convert(internal, completed, nil))
	pod.Spec.Resources = completed.Spec.Resources
}

// must is for what cannot fail on an object that was decoded before.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// asStored gives the object the quantities that a client reads. What a user wrote as 0.10Gi, the API
// server stores as 107374182400m; only the latter may be added to: a quantity with a fraction of a
// binary unit shares its digits with its copies, so that a sum changes what it was made from.
func asStored[T any](obj *T) {
	data, err := json.Marshal(obj)
	must(err)
	var stored T
	must(json.Unmarshal(data, &stored))
	*obj = stored
}

func (c *cluster) addImpliedNamespaces() {
	for kindName, known := range kinds {
		if !known.namespaced {
			continue
		}
		for _, obj := range c.objects[kindName] {
			if !c.names.Has("Namespace " + obj.GetNamespace()) {
				// A name that was just looked up cannot collide, so add has nothing to report.
				_ = c.add("Namespace", &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: obj.GetNamespace()}})
			}
		}
	}
}

// admitClaims gives the default StorageClass, the newest one where there are several, to claims that
// leave their class open.
func (c *cluster) admitClaims() {
	var defaults []*storagev1.StorageClass
	for _, class := range list[*storagev1.StorageClass](c, "StorageClass") {
		if volumeutil.IsDefaultAnnotation(class.ObjectMeta) {
			defaults = append(defaults, class)
		}
	}
	if len(defaults) == 0 {
		return
	}
	sort.Slice(defaults, func(i, j int) bool {
		a, b := defaults[i].CreationTimestamp, defaults[j].CreationTimestamp
		if a.Equal(&b) {
			return defaults[i].Name < defaults[j].Name
		}
		return b.Before(&a)
	})
	for _, claim := range list[*v1.PersistentVolumeClaim](c, "PersistentVolumeClaim") {
		if _, annotated := claim.Annotations[v1.BetaStorageClassAnnotation]; !annotated && claim.Spec.StorageClassName == nil {
			claim.Spec.StorageClassName = &defaults[0].Name
		}
	}
}

func (c *cluster) admitRuntimeClass(pod *v1.Pod) {
	if pod.Spec.RuntimeClassName == nil {
		return
	}
	for _, class := range list[*nodev1.RuntimeClass](c, "RuntimeClass") {
		if class.Name != *pod.Spec.RuntimeClassName {
			continue
		}
		if class.Overhead != nil && pod.Spec.Overhead == nil {
			pod.Spec.Overhead = class.Overhead.PodFixed
		}
		if class.Scheduling != nil {
			addRuntimeScheduling(pod, class.Scheduling)
		}
		return
	}
	c.note("Pod %s: RuntimeClass %q is not there", keyOf(pod), *pod.Spec.RuntimeClassName)
}

func addRuntimeScheduling(pod *v1.Pod, wanted *nodev1.Scheduling) {
	if len(wanted.NodeSelector) > 0 {
		merged := maps.Clone(wanted.NodeSelector)
		maps.Copy(merged, pod.Spec.NodeSelector)
		pod.Spec.NodeSelector = merged
	}
	for _, toleration := range wanted.Tolerations {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool { return t.MatchToleration(&toleration) }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
		}
	}
}

func (c *cluster) admitPriority(pod *v1.Pod) {
	class := c.priorityClass(pod.Spec.PriorityClassName)
	if class == nil {
		if pod.Spec.PriorityClassName != "" && pod.Spec.Priority == nil {
			c.note("Pod %s: PriorityClass %q is not there, its priority counts as 0", keyOf(pod), pod.Spec.PriorityClassName)
		}
		class = &schedulingv1.PriorityClass{}
	}
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = ptr.To(class.Value)
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = ptr.To(ptr.Deref(class.PreemptionPolicy, v1.PreemptLowerPriority))
	}
}

// admitGroupPriority gives a group its priority, as its Pods get theirs.
func (c *cluster) admitGroupPriority(className string, priority **int32) {
	class := c.priorityClass(className)
	if class == nil {
		class = &schedulingv1.PriorityClass{}
	}
	if *priority == nil {
		*priority = ptr.To(class.Value)
	}
}

// priorityClass finds the class of that name, or with no name the global default (of several, the lowest).
func (c *cluster) priorityClass(name string) *schedulingv1.PriorityClass {
	var found *schedulingv1.PriorityClass
	for _, class := range list[*schedulingv1.PriorityClass](c, "PriorityClass") {
		if name != "" && class.Name == name {
			return class
		}
		if name == "" && class.GlobalDefault && (found == nil || class.Value < found.Value) {
			found = class
		}
	}
	switch name {
	case scheduling.SystemClusterCritical:
		return &schedulingv1.PriorityClass{Value: scheduling.SystemCriticalPriority}
	case scheduling.SystemNodeCritical:
		return &schedulingv1.PriorityClass{Value: scheduling.SystemCriticalPriority + 1000}
	}
	return found
}

func addDefaultTolerations(pod *v1.Pod) {
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		tolerated := slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == v1.TaintEffectNoExecute || t.Effect == "")
		})
		if !tolerated {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{
				Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute,
				TolerationSeconds: ptr.To(defaultEvictionSeconds),
			})
		}
	}
}

// mergeLabelKeys writes matchLabelKeys and mismatchLabelKeys into the selectors they belong to. The
// scheduler itself never looks at those of pod affinity.
func mergeLabelKeys(pod *v1.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		mergeKeys(constraint.LabelSelector, constraint.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
	}
	for _, term := range podAffinityTerms(pod.Spec.Affinity) {
		mergeKeys(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
		mergeKeys(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, pod.Labels)
	}
}

func podAffinityTerms(affinity *v1.Affinity) []*v1.PodAffinityTerm {
	var terms []*v1.PodAffinityTerm
	collect := func(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
		for i := range required {
			terms = append(terms, &required[i])
		}
		for i := range preferred {
			terms = append(terms, &preferred[i].PodAffinityTerm)
		}
	}
	if affinity != nil && affinity.PodAffinity != nil {
		together := affinity.PodAffinity
		collect(together.RequiredDuringSchedulingIgnoredDuringExecution, together.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if affinity != nil && affinity.PodAntiAffinity != nil {
		apart := affinity.PodAntiAffinity
		collect(apart.RequiredDuringSchedulingIgnoredDuringExecution, apart.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return terms
}

// mergeKeys leaves a selector alone that has the requirement already: then the Pod comes from a cluster.
func mergeKeys(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		value, labelled := labels[key]
		there := slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return r.Key == key && r.Operator == operator && slices.Equal(r.Values, []string{value})
		})
		if labelled && !there {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: key, Operator: operator, Values: []string{value},
			})
		}
	}
}
