package fakeapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/examples/kubewait/internal/fakeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait in these tests; an idle machine needs milliseconds.
const patience = time.Minute

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
	deployments = "/apis/apps/v1/namespaces/default/deployments/"
)

func start(t *testing.T, cfg fakeapi.Config) *fakeapi.Server {
	t.Helper()
	s, err := fakeapi.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		assert.NoError(t, s.Close())
	})
	return s
}

// ask makes a request and returns the response.
func ask(t *testing.T, s *fakeapi.Server, method, path string) (code int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestServer(t *testing.T) {
	t.Run("a missing object gets the NotFound response of Kubernetes", func(t *testing.T) {
		s := start(t, fakeapi.Config{Kind: fakeapi.CRD, Name: "widgets.example.com"})
		code, text := ask(t, s, http.MethodGet, definitions+"widgets.example.com")
		assert.Equal(t, 404, code)
		assert.JSONEq(t, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
			"message":"customresourcedefinitions.apiextensions.k8s.io \"widgets.example.com\" not found",
			"reason":"NotFound","details":{"name":"widgets.example.com","group":"apiextensions.k8s.io",
			"kind":"customresourcedefinitions"},"code":404}`, text)
	})
	t.Run("an object that has appeared is found and established", func(t *testing.T) {
		s := start(t, fakeapi.Config{Kind: fakeapi.CRD, Name: "widgets.example.com"})
		s.Appear()
		code, text := ask(t, s, http.MethodGet, definitions+"widgets.example.com")
		assert.Equal(t, 200, code)
		assert.JSONEq(t, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"widgets.example.com","resourceVersion":"1000"},
			"status":{"conditions":[{"type":"Established","status":"True","reason":"InitialNamesAccepted",
			"message":"the initial names have been accepted"}]}}`, text)
	})
	t.Run("another name and another kind are not found", func(t *testing.T) {
		s := start(t, fakeapi.Config{Kind: fakeapi.CRD, Name: "widgets.example.com", AppearsAfter: time.Nanosecond})
		for _, path := range []string{definitions + "other", deployments + "widgets.example.com"} {
			code, text := ask(t, s, http.MethodGet, path)
			assert.Equal(t, 404, code)
			assert.Contains(t, text, `"reason":"NotFound"`)
		}
	})
	t.Run("an unknown path gets plain text", func(t *testing.T) {
		s := start(t, fakeapi.Config{})
		for _, path := range []string{"/", definitions, deployments + "a/scale", "/api/v1/pods/a"} {
			code, text := ask(t, s, http.MethodGet, path)
			assert.Equal(t, 404, code)
			assert.Equal(t, "404 page not found\n", text)
		}
	})
	t.Run("only GET is allowed", func(t *testing.T) {
		code, _ := ask(t, start(t, fakeapi.Config{}), http.MethodDelete, definitions+"a")
		assert.Equal(t, 405, code)
	})
}

func TestDeployment(t *testing.T) {
	type state struct {
		Metadata struct{ ResourceVersion string }
		Status   struct {
			ReadyReplicas int
			Conditions    []struct{ Type, Status string }
		}
	}
	look := func(t *testing.T, s *fakeapi.Server) (seen state) {
		t.Helper()
		code, text := ask(t, s, http.MethodGet, deployments+"shop")
		require.Equal(t, 200, code, text)
		require.NoError(t, json.Unmarshal([]byte(text), &seen))
		require.Equal(t, "Available", seen.Status.Conditions[0].Type)
		return seen
	}
	t.Run("has no ready replica at first", func(t *testing.T) {
		s := start(t, fakeapi.Config{Kind: fakeapi.Deployment, Name: "shop", Pace: time.Hour})
		s.Appear()
		first := look(t, s)
		assert.Zero(t, first.Status.ReadyReplicas)
		assert.Equal(t, "False", first.Status.Conditions[0].Status)
	})
	t.Run("gets ready replicas, each with a new version, and becomes available", func(t *testing.T) {
		s := start(t, fakeapi.Config{Kind: fakeapi.Deployment, Name: "shop", Pace: 20 * time.Millisecond})
		s.Appear()
		versions := map[string]int{}
		require.Eventually(t, func() bool {
			seen := look(t, s)
			versions[seen.Metadata.ResourceVersion] = seen.Status.ReadyReplicas
			return seen.Status.Conditions[0].Status == "True"
		}, patience, time.Millisecond)
		assert.Equal(t, fakeapi.Replicas, versions["1003"])
		s.Appear()
		assert.Equal(t, "True", look(t, s).Status.Conditions[0].Status, "it appears once")
		for version, ready := range versions {
			assert.Equal(t, map[int]string{0: "1000", 1: "1001", 2: "1002", 3: "1003"}[ready], version)
		}
	})
	t.Run("does not exist before its time, unless Appear is called", func(t *testing.T) {
		s := start(t, fakeapi.Config{Kind: fakeapi.Deployment, Name: "shop", AppearsAfter: time.Hour})
		code, _ := ask(t, s, http.MethodGet, deployments+"shop")
		assert.Equal(t, 404, code)
		s.Appear()
		look(t, s)
	})
	t.Run("exists from its time on", func(t *testing.T) {
		s := start(t, fakeapi.Config{Kind: fakeapi.Deployment, Name: "shop", AppearsAfter: 50 * time.Millisecond})
		require.Eventually(t, func() bool {
			code, _ := ask(t, s, http.MethodGet, deployments+"shop")
			return code == 200
		}, patience, time.Millisecond)
		assert.Equal(t, "True", look(t, s).Status.Conditions[0].Status, "without a pace all replicas are ready at once")
	})
}
