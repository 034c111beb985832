// Package fakeapi is a Kubernetes API server with one object, for an example and its tests: a custom resource
// definition or a deployment that appears after a while, or never.
//
// It answers GET as the real one does: with the object, with a Status of reason NotFound, or with plain text for an
// unknown path. The replicas of a new deployment become ready one after the other; a definition is established at once.
//
// It has no watches, no lists, no other verbs and no access control.
package fakeapi
