package fakeapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// An endpoint is the path and the API's names of a kind of object.
type endpoint struct{ kind, path, group, resource string }

var endpoints = []endpoint{
	{CRD, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/", "apiextensions.k8s.io", "customresourcedefinitions"},
	{Deployment, "/apis/apps/v1/namespaces/default/deployments/", "apps", "deployments"},
}

// parse splits the path of an object.
func parse(path string) (kind, name string, known bool) {
	for _, p := range endpoints {
		if name, found := strings.CutPrefix(path, p.path); found && name != "" && !strings.Contains(name, "/") {
			return p.kind, name, true
		}
	}
	return "", "", false
}

// The objects, with the fields that a waiting client reads.
type (
	object struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
		Status     status   `json:"status"`
	}
	metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	}
	status struct {
		Replicas      int         `json:"replicas,omitempty"`
		ReadyReplicas int         `json:"readyReplicas,omitempty"`
		Conditions    []condition `json:"conditions"`
	}
	condition struct {
		Type    string `json:"type"`
		Status  string `json:"status"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
)

// firstVersion is the resource version of a new object.
const firstVersion = 1000

func definition(name string) object {
	return object{
		"apiextensions.k8s.io/v1", "CustomResourceDefinition", metadata{name, strconv.Itoa(firstVersion)},
		status{Conditions: []condition{
			{"Established", "True", "InitialNamesAccepted", "the initial names have been accepted"},
		}},
	}
}

func deployment(name string, ready int) object {
	available := condition{
		"Available", "False", "MinimumReplicasUnavailable", fmt.Sprintf("%d of %d replicas are ready", ready, Replicas),
	}
	if ready == Replicas {
		available = condition{
			"Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.",
		}
	}
	return object{
		"apps/v1", "Deployment", metadata{name, strconv.Itoa(firstVersion + ready)},
		status{Replicas: Replicas, ReadyReplicas: ready, Conditions: []condition{available}},
	}
}

// A failure is the API's error response.
type failure struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Metadata   struct{} `json:"metadata"`
	Status     string   `json:"status"`
	Message    string   `json:"message"`
	Reason     string   `json:"reason"`
	Details    details  `json:"details"`
	Code       int      `json:"code"`
}

type details struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Kind  string `json:"kind"`
}

func notFound(kind, name string) failure {
	f := failure{Kind: "Status", APIVersion: "v1", Status: "Failure", Reason: "NotFound", Code: http.StatusNotFound}
	for _, p := range endpoints {
		if p.kind == kind {
			f.Details = details{name, p.group, p.resource}
			f.Message = fmt.Sprintf("%s.%s %q not found", p.resource, p.group, name)
		}
	}
	return f
}
