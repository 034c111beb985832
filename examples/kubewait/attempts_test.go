package main_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	kubewait "github.com/seed62658d38/watchdog/examples/kubewait"
	"github.com/seed62658d38/watchdog/examples/kubewait/internal/fakeapi"
)

// A listener records the output and calls a function once the output contains a text.
type listener struct {
	strings.Builder
	text string
	call func()
}

func (l *listener) Write(p []byte) (int, error) {
	if l.call != nil && strings.Contains(string(p), l.text) {
		l.call()
		l.call = nil
	}
	return l.Builder.Write(p)
}

func start(t *testing.T, cfg fakeapi.Config) *fakeapi.Server {
	t.Helper()
	s, err := fakeapi.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	t.Run("a resource that appears after the second attempt is found by the third", func(t *testing.T) {
		t.Parallel()
		api := start(t, fakeapi.Config{Kind: fakeapi.CRD, Name: "widgets.example.com"})
		out := &listener{text: "Stage: look", call: api.Appear}
		require.NoError(t, kubewait.Attempts(t.Context(), api.URL(), "crd", "widgets.example.com", 0, out))
		assert.Contains(t, out.String(), "attempt 2\n")
		assert.Contains(t, out.String(), "READY in attempt 3")
	})
	t.Run("a deployment without replicas is a new problem and restarts the count", func(t *testing.T) {
		t.Parallel()
		missing := start(t, fakeapi.Config{Kind: fakeapi.Deployment, Name: "shop"})
		there := start(t, fakeapi.Config{Kind: fakeapi.Deployment, Name: "shop", Pace: 1 << 62})
		there.Appear()
		var at atomic.Pointer[fakeapi.Server]
		at.Store(missing)
		handler := func(w http.ResponseWriter, r *http.Request) { at.Load().ServeHTTP(w, r) }
		api := httptest.NewServer(http.HandlerFunc(handler))
		defer api.Close()
		out := &listener{text: "Stage: look", call: func() { at.Store(there) }}
		err := kubewait.Attempts(t.Context(), api.URL, "deployment", "shop", 3, out)
		require.ErrorIs(t, err, kubewait.ErrGivenUp)
		golden(t, "not_ready", normalize(out.String()))
	})
	t.Run("an invalid API is an error of the wait", func(t *testing.T) {
		t.Parallel()
		api := httptest.NewServer(http.NotFoundHandler())
		defer api.Close()
		var out strings.Builder
		err := kubewait.Attempts(t.Context(), api.URL, "crd", "widgets.example.com", 0, &out)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, 1, exit.ExitCode())
		const says = "kubewait: ask for crd widgets.example.com: the answer 404 Not Found: it is not an object of the API: "
		assert.Contains(t, out.String(), says)
	})
}

func TestProbe(t *testing.T) {
	t.Parallel()
	api := func(t *testing.T, code int, text string) string {
		t.Helper()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(text))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	probe := func(t *testing.T, url string) outcome {
		t.Helper()
		var out, errs strings.Builder
		args := []string{"probe", "-server", url, "-kind", "deployment", "-name", "shop"}
		code := kubewait.Run(t.Context(), args, &out, &errs)
		http.DefaultClient.CloseIdleConnections()
		return outcome{code, out.String(), errs.String()}
	}
	for _, c := range []struct {
		name string
		code int
		text string
		want string
	}{
		{
			"a missing resource", 404, `{"kind":"Status","status":"Failure","reason":"NotFound"}`,
			`{"class":"stalled","digest":"missing","fingerprints":["k8s/deployment/missing:shop"],` +
				`"summary":"deployment shop does not exist"}`,
		},
		{
			"a resource that is not ready", 200, `{"metadata":{"resourceVersion":"7"},` +
				`"status":{"conditions":[{"type":"Available","status":"False","message":"1 of 3"}]}}`,
			`{"class":"stalled","digest":"7","fingerprints":["k8s/deployment/not-ready:shop"],` +
				`"summary":"deployment shop is not ready: 1 of 3"}`,
		},
		{
			"a resource without conditions", 200, `{"metadata":{"resourceVersion":"6"},"status":{}}`,
			`{"class":"stalled","digest":"6","fingerprints":["k8s/deployment/not-ready:shop"],` +
				`"summary":"deployment shop is not ready: "}`,
		},
		{
			"a resource that is ready", 200, `{"metadata":{"resourceVersion":"8"},` +
				`"status":{"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"False"}]}}`,
			`{"class":"progressing","digest":"8","summary":"deployment shop is ready"}`,
		},
	} {
		t.Run("names "+c.name, func(t *testing.T) {
			o := probe(t, api(t, c.code, c.text))
			require.Equal(t, 0, o.code, o.stderr)
			assert.JSONEq(t, c.want, o.stdout)
		})
	}
	for _, c := range []struct {
		name string
		code int
		text string
		says string
	}{
		{
			"an answer that is not the API's", 404, "404 page not found\n",
			"the answer 404 Not Found: it is not an object of the API: ",
		},
		{"a 404 for another reason", 404, `{"reason":"Gone"}`, `the answer 404 Not Found: its reason is "Gone"`},
		{
			"an API that refuses", 403, `{"kind":"Status","status":"Failure","reason":"Forbidden"}`,
			`the answer 403 Forbidden: its reason is "Forbidden"`,
		},
		{"an invalid status", 200, `{"status":"Failure"}`, "the answer 200 OK: its status: "},
	} {
		t.Run("fails on "+c.name, func(t *testing.T) {
			o := probe(t, api(t, c.code, c.text))
			assert.Equal(t, 1, o.code)
			assert.Empty(t, o.stdout)
			assert.Contains(t, o.stderr, "kubewait: ask for deployment shop: "+c.says)
		})
	}
	t.Run("fails without an API", func(t *testing.T) {
		s := httptest.NewServer(nil)
		s.Close()
		o := probe(t, s.URL)
		assert.Equal(t, 1, o.code)
		assert.Contains(t, o.stderr, "connect")
	})
}
