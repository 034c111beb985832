package modelproxy_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// TestPaths has where requests go, and whether they count: by the path that is sent.
func TestPaths(t *testing.T) {
	const ownAnthropic, ownOpenAI = "https://api.anthropic.com", "https://api.openai.com/v1"
	const ownGemini = "https://generativelanguage.googleapis.com"
	for name, c := range map[string]struct {
		api       modelproxy.API
		base      string // empty: the variable is not set
		path      string // that a client puts after its base
		sent      string // empty: refused
		uncounted bool
	}{
		"as the SDK has it":                       {modelproxy.Anthropic, "", "/v1/messages", ownAnthropic + "/v1/messages", false},
		"as the AI SDK has it":                    {modelproxy.Anthropic, "", "/messages", ownAnthropic + "/v1/messages", false},
		"the own base, written out":               {modelproxy.Anthropic, ownAnthropic + "/", "/messages", ownAnthropic + "/v1/messages", false},
		"a base with the version":                 {modelproxy.Anthropic, ownAnthropic + "/v1", "/messages", ownAnthropic + "/v1/messages", false},
		"a version is not repeated":               {modelproxy.Anthropic, ownAnthropic + "/v1/", "/v1/messages", ownAnthropic + "/v1/messages", false},
		"a gateway with the version":              {modelproxy.Anthropic, "https://g/a/v1", "/messages", "https://g/a/v1/messages", false},
		"a gateway without":                       {modelproxy.Anthropic, "https://g/a", "/v1/messages", "https://g/a/v1/messages", false},
		"a gateway that might take what is":       {modelproxy.Anthropic, "https://g/a", "/messages", "", false},
		"another version in the base of gateways": {modelproxy.Gemini, "https://g/v1", "/v1beta/models/m:generateContent", "https://g/v1/v1beta/models/m:generateContent", false},
		"OpenAI's base has the version":           {modelproxy.OpenAI, "", "/responses", ownOpenAI + "/responses", false},
		"and a client has it, too":                {modelproxy.OpenAI, "", "/v1/chat/completions", ownOpenAI + "/chat/completions", false},
		"a gateway of OpenAI's without":           {modelproxy.OpenAI, "https://g", "/chat/completions", "https://g/chat/completions", false},
		"old completions of such a gateway":       {modelproxy.OpenAI, "https://g", "/completions", "", false},
		"a deployment":                            {modelproxy.OpenAI, "https://g/openai/deployments/d", "/chat/completions", "https://g/openai/deployments/d/chat/completions", false},
		"messages of a thread":                    {modelproxy.OpenAI, "", "/threads/t/messages", ownOpenAI + "/threads/t/messages", true},
		"Gemini's SDK":                            {modelproxy.Gemini, "", "/v1beta/models/m:generateContent", ownGemini + "/v1beta/models/m:generateContent", false},
		"Gemini without the version":              {modelproxy.Gemini, "", "/models/m:generateContent", ownGemini + "/v1beta/models/m:generateContent", false},
		"Gemini of a version of its own":          {modelproxy.Gemini, "", "/v1alpha/models/m:generateContent", ownGemini + "/v1alpha/models/m:generateContent", false},
		"an upload, with its version inside":      {modelproxy.Gemini, "", "/upload/v1beta/files", ownGemini + "/upload/v1beta/files", true},
		"what is beside the version":              {modelproxy.Anthropic, "", "/api/hello", ownAnthropic + "/api/hello", true},
		"counting tokens":                         {modelproxy.Anthropic, "", "/messages/count_tokens", ownAnthropic + "/v1/messages/count_tokens", true},
		"an escape stays":                         {modelproxy.OpenAI, "https://g/a%2Fb", "/files/x%2Fy", "https://g/a%2Fb/files/x%2Fy", true},
		"a name with a version in it":             {modelproxy.Gemini, "", "/models/v1x:generateContent", ownGemini + "/v1beta/models/v1x:generateContent", false},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				sent = append(sent, req.URL.String())
				return &http.Response{
					StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: req,
				}, nil
			})
			wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{
				Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 10}},
			})
			require.NoError(t, err)
			defer wd.Close()
			proxy, err := modelproxy.Start(wd.Context(), &watchdoghttp.Meter{
				Base: base, Models: map[string]watchdoghttp.Maximum{"*": {Input: 100, Output: 100}},
			}, func(string) (string, bool) { return c.base, c.base != "" })
			require.NoError(t, err)
			defer proxy.Close()
			resp, err := http.Post(proxy.URL(c.api)+c.path+"?x=a%2Fb", "application/json", strings.NewReader(
				`{"model":"m","messages":[],"input":"x","contents":[]}`)) // of any API
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.NoError(t, proxy.Close(), "which settles the call")
			if c.sent == "" {
				assert.Empty(t, sent)
				require.Len(t, proxy.Refused(), 1)
				assert.EqualValues(t, 1, proxy.Refused()[0].Count)
				assert.Contains(t, proxy.Refused()[0].First, "not written as the API has it")
				return
			}
			want, err := url.Parse(c.sent + "?x=a%2Fb")
			require.NoError(t, err)
			assert.Equal(t, []string{want.String()}, sent)
			assert.Equal(t, !c.uncounted, proxy.Calls() == 1, "it is a call")
			assert.Equal(t, !c.uncounted, wd.Usage()[0].Used == 1, "it is metered")
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
