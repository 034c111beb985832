// Package fakeapi is a Kubernetes API server of one object, for an example and its tests: a custom resource definition or a deployment that appears after a while, or
// never.
//
// It answers a GET as the real one does: with the object, or with a Status of reason NotFound, and with plain text for a path that it does not have. A
// deployment that has appeared gets its replicas one after the other; a definition is established at once.
//
// It has no watches, no lists, no other verb than GET and no access control.
package fakeapi
