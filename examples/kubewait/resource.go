package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A resource is what is waited for.
type resource struct{ kind, name string }

func (r resource) String() string { return r.kind + " " + r.name }

// A kind is where resources of it are and which condition says that one is ready.
type kind struct{ path, condition string }

var kinds = map[string]kind{
	"crd":        {"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/", "Established"},
	"deployment": {"/apis/apps/v1/namespaces/default/deployments/", "Available"},
}

// names are those that an object can have, as far as this program needs them.
var names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,98}[a-z0-9])?$`)

func (r resource) check() error {
	if _, known := kinds[r.kind]; !known {
		return fmt.Errorf("-kind %q: use %s", r.kind, kindNames())
	}
	if !names.MatchString(r.name) {
		return fmt.Errorf("-name %q: use at most 100 lower-case letters, digits, dots and hyphens", r.name)
	}
	return nil
}

// A sight is what the API says of a resource.
type sight struct {
	there, ready bool
	version      string
	message      string // of the condition that says whether it is ready
}

// limit is how long an answer may take.
const limit = 3 * time.Second

// look asks the API. Whatever is neither the resource nor the API's own "not found" is an error.
func (r resource) look(ctx context.Context, server string) (sight, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+kinds[r.kind].path+r.name, nil)
	if err != nil {
		return sight{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return sight{}, fmt.Errorf("ask for %v: %w", r, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	seen, err := r.read(resp)
	if err != nil {
		return sight{}, fmt.Errorf("ask for %v: the answer %s: %w", r, resp.Status, err)
	}
	return seen, nil
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 1 << 20

func (r resource) read(resp *http.Response) (sight, error) {
	var answer struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Reason string          `json:"reason"`
		Status json.RawMessage `json:"status"` // a text where the API says no
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return sight{}, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return sight{}, fmt.Errorf("it is no object of the API: %w", err)
	}
	switch {
	case resp.StatusCode == http.StatusNotFound && answer.Reason == "NotFound":
		return sight{}, nil
	case resp.StatusCode != http.StatusOK:
		return sight{}, fmt.Errorf("its reason is %q", answer.Reason)
	}
	return r.readStatus(answer.Metadata.ResourceVersion, answer.Status)
}

func (r resource) readStatus(version string, text json.RawMessage) (sight, error) {
	var status struct {
		Conditions []struct{ Type, Status, Message string } `json:"conditions"`
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return sight{}, fmt.Errorf("its status: %w", err)
	}
	seen := sight{there: true, version: version}
	for _, c := range status.Conditions {
		if c.Type == kinds[r.kind].condition {
			seen.ready, seen.message = c.Status == "True", c.Message
		}
	}
	return seen, nil
}

// kindNames lists the kinds.
func kindNames() string {
	var all []string
	for name := range kinds {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " or ")
}
