package main

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// fixedInformer is an informer whose objects are all there from the start: nobody has to run it, and a
// handler has seen all of them, in the order of the file, when AddEventHandler returns.
type fixedInformer struct {
	cache.SharedIndexInformer
	objects []object
}

// newInformerFactory makes a factory whose informers of every kind of the cluster are fixed ones.
func newInformerFactory(client kubernetes.Interface, c *cluster) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactory(client, 0)
	for name, known := range kinds {
		factory.InformerFor(known.example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return newFixedInformer(known.example, c.objects[name])
		})
	}
	return factory
}

func newFixedInformer(example runtime.Object, objects []object) *fixedInformer {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	informer := &fixedInformer{cache.NewSharedIndexInformer(&cache.ListWatch{}, example, 0, indexers), objects}
	for _, obj := range objects {
		// The key function fails only for objects without metadata.
		_ = informer.GetIndexer().Add(obj)
	}
	return informer
}

func (i *fixedInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (i *fixedInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (i *fixedInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	for _, obj := range i.objects {
		handler.OnAdd(obj, true)
	}
	return i, nil
}

// HasSynced makes the informer its own handler registration as well.
func (i *fixedInformer) HasSynced() bool { return true }
